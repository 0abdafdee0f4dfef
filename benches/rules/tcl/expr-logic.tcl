# Conditions with and, or, not
set a 5
set b 0
set c 17
# body
set out [expr {($a > 3 && !$b) || ($c <= 17 && $a == 5 && $b != 1) ? $a : $c}]
