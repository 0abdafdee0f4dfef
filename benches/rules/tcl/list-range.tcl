# Cut, insert and replace
set list {alpha beta gamma delta epsilon zeta eta theta iota kappa}
# body
set out [lreplace [linsert [lrange $list 2 7] 1 new words] 3 3 other]
