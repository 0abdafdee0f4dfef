# A rule with most corners of the grammar in it: {braces}, \
  a continued comment, and what only BIG-IP allows.
priority 400
timing off

when RULE_INIT {
    set static::secret "k\x65y\u00e9\101"
    array set static::table {a 1 {b c} {2 {3}}}
}

proc double {x {times 2} args} { return [expr {$x * $times}] }

when HTTP_REQUEST priority 100 timing on {
    if { [HTTP::uri] starts_with "/a" and not ([HTTP::host] ends_with ".b") }{
        set key($static::table(b c),[string length ${name with blanks}]) "[lindex {a b} 1]$tail(x)$"
    }
    elseif {$x == 0x1f || [catch {call double [TCP::client_port]} y] && $y eq {}} {
        switch -glob -- [string tolower [HTTP::path]] {
            "*.jpg" -
            "*.png" { pool images }
            default { node 192.0.2.1 80 }
        }
    }
    else { log local0. "a ; b # no comment" ; return } ;# a comment
    foreach {a b} [split [HTTP::cookie names]] { incr n [expr {$a ? int(1.5e3) : -~!$b << 2}] }
    eval "if {1} {set z 1}\nelse {set z 2}"
    set long [format "%s-%d" \
        $key \
        7]
}
