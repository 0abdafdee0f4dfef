# A loop of a thousand
# body
set out 0
for {set j 0} {$j < 1000} {incr j} { incr out $j }
