# A list of a hundred numbers
# body
set out {}
for {set j 0} {$j < 100} {incr j} { lappend out $j }
