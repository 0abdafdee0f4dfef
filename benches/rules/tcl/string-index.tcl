# Each byte of a value by its index
set text "abcdefghijklmnopqrstuvwxyz"
# body
set out ""
for {set j 0} {$j < [string length $text]} {incr j} { if { [string index $text $j] eq "q" } { set out $j } }
