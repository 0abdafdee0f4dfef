# Integer arithmetic
set a 17
set b 4242
# body
set out [expr {($a * $b + 3) % 1000 ^ ($b >> 2) & 0xff}]
