# An expression that is known only when it runs
set k 5c
set a 7
# body
set out [expr 0x$k ^ $a]
