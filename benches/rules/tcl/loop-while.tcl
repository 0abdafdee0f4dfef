# A loop with break and continue
# body
set out 0
set j 0
while { 1 } { incr j; if { $j % 3 == 0 } { continue }; if { $j > 300 } { break }; incr out }
