when CLIENT_DATA {
    set i 0
    while {$i < 3} { incr i; if {$i == 2} continue; append out [string index "abc" $i] }
    for {set j 0} {$j < 4} {incr j 2} { lappend l $j [list $j "\{"] }
    set r [catch {error a b {c d}} message]
    regexp -nocase {^(a|b)+?([[:alpha:]]*)\1$} $out all first
    regsub -all {\d+} "a1b22" {<&>} replaced
    set sorted [lsort -integer -decreasing -unique {3 1 2 3}]
    set text [subst -nocommands {$i[x]\n}]
    binary scan [binary format cSa4 1 2 abc] H* hex
    list [uplevel 0 {upvar 0 i alias; set alias}] [expr "$i + 1"] [string map {a b} $text]
    scan "10 0x1f" "%d %x" p q
    return [expr {$i ? [info exists p] : "no"}]
}
