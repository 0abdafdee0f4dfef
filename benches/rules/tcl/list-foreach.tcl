# Walk a list of pairs
set pairs {}
for {set j 0} {$j < 50} {incr j} { lappend pairs "name$j" $j }
# body
set out 0
foreach {name value} $pairs { incr out $value }
