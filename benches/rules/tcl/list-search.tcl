# Look for a word in a list
set list {alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon}
# body
set out "[lsearch -exact $list sigma][lsearch $list om*][lsearch -exact $list missing]"
