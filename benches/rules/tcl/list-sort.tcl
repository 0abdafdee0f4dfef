# Sort 50 words, and 50 numbers
set words {}
set numbers {}
for {set j 0} {$j < 50} {incr j} { lappend words "w[expr {$j * 7919 % 50}]"; lappend numbers [expr {$j * 7919 % 50}] }
# body
set out "[lindex [lsort $words] 3][lindex [lsort -integer -decreasing $numbers] 3]"
