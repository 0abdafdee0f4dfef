# Set, read and count array elements
# body
for {set j 0} {$j < 50} {incr j} { set table(key$j) $j }
set out 0
for {set j 0} {$j < 50} {incr j} { incr out $table(key$j) }
