# Build a value of a thousand bytes by appending
# body
set out ""
for {set j 0} {$j < 100} {incr j} { append out "0123456789" }
