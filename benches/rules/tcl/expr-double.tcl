# Floating-point arithmetic
set a 17.5
set b 3.25
# body
set out [expr {$a * $b / 2.0 - sqrt($a) + int($b) * 0.5}]
