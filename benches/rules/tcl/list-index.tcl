# Elements of a list by position
set list {alpha beta gamma delta epsilon zeta eta theta iota kappa}
# body
set out "[lindex $list 0][lindex $list 5][lindex $list end][llength $list]"
