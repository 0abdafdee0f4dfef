# Runs the cases of the tables given (all beside this file if none are) through the tclsh that runs it, and tells where it
# gives something else. Cases marked `#: 8.4` or `#: BIG-IP` are left out: newer or other Tcls differ there by design.
# With -fill it writes what tclsh gives behind the cases that have no result yet.

proc escaped {text} {
    set out ""
    foreach char [split $text ""] {
        scan $char %c code
        switch -- $char {
            "\\" { append out {\\} }
            "\n" { append out {\n} }
            default {
                if {$code < 32 || $code > 126} {
                    append out [format {\x%02x} $code]
                } else {
                    append out $char
                }
            }
        }
    }
    return $out
}

# Here a procedure is its own command.
proc outcome {script} {
    regsub -all {\mcall } $script {} script
    set child [interp create]
    set code [catch {$child eval $script} result]
    interp delete $child
    return "[lindex {==> ==! ==return ==break ==continue} $code][expr {$result eq "" ? "" : " "}][escaped $result]"
}

proc check {file fill} {
    set channel [open $file]
    fconfigure $channel -encoding iso8859-1
    set lines [split [string trimright [read $channel] \n] \n]
    close $channel
    set script {}
    set skip 0
    set out {}
    set cases 0
    set number 0
    foreach line [concat $lines [list ""]] {
        incr number
        if {[string match "#:*" $line]} {
            set skip 1
        } elseif {[string match "##*" $line]} {
            # What the file is about.
        } elseif {[string match "==*" $line]} {
            incr cases
            if {!$skip} {
                set got [outcome [join $script \n]]
                if {$got ne $line} {
                    puts "[file tail $file]:$number: $line\n    tclsh: $got"
                }
            }
            set script {}
            set skip 0
        } elseif {$line eq ""} {
            if {[llength $script] && $fill} {
                lappend out [outcome [join $script \n]]
            }
            set script {}
            set skip 0
        } else {
            lappend script $line
        }
        lappend out $line
    }
    if {$fill} {
        set channel [open $file w]
        fconfigure $channel -encoding iso8859-1
        puts $channel [string trimright [join $out \n] \n]
        close $channel
    }
    return $cases
}

set fill [expr {[lindex $argv 0] eq "-fill"}]
set files [lrange $argv $fill end]
if {![llength $files]} {
    set files [lsort [glob -directory [file dirname [info script]] *.txt]]
}
set cases 0
foreach file $files {
    incr cases [check $file $fill]
}
puts "$cases cases"
