# Time one of the scripts in tcl/: what stands above `# body` runs once, what stands below it so many times, in a procedure, so that
# variables have slots. Prints nanoseconds each time, how many times, and what was left in `out`.
# Usage: tclsh run.tcl FILE MILLISECONDS
lassign $argv file milliseconds
set tcl_precision 12
set channel [open $file]
set text [regsub -all {\mcall (?=\w)} [read $channel] ""]
close $channel
regexp {^(.*)\n# body\n(.*)$} \n$text all setup body
proc run {times} "$setup
for {set times_left \$times} {\$times_left > 0} {incr times_left -1} {
$body
}
return \[list \$out\]"
set times 1
while 1 {
    set each [lindex [time {set out [run $times]}] 0]
    if {$each > $milliseconds * 1000} break
    set times [expr {$each < 100 ? $times * 10 : max($times + 1, int($times * $milliseconds * 1100.0 / $each))}]
}
puts "[expr {$each * 1000.0 / $times}] $times [string map {\n \\n \r \\r} [lindex $out 0]]"
