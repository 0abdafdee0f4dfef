# As sign.tcl, but the HMAC (RFC 2104) is a script in a variable, made of sha256 alone and run by eval.
when RULE_INIT {
    set static::sign_key "a key that is used in tests alone"
    set static::sign_session "ASP.NET_SessionId"
    set static::sign_name "ASP.NET_SessionId_HMAC"
    set static::sign_most 100000
    unset -nocomplain static::signed
    set static::signed(count) 0
    set static::sign_script {
        set key $static::sign_key
        if { [string length $key] > 64 } { set key [sha256 $key] }
        set inner ""
        set outer ""
        for { set at 0 }{ $at < 64 }{ incr at }{
            set byte 0
            if { $at < [string length $key] } {
                binary scan $key @${at}H2 hex
                set byte 0x$hex
            }
            append inner [format %c [expr {$byte ^ 0x36}]]
            append outer [format %c [expr $byte ^ 0x5c]]
        }
        set token [b64encode [sha256 $outer[sha256 "${inner}$session:$owner"]]]
    }
    after 86400000 -periodic {
        if { [array exists static::signed] } {
            log -noname local0.debug "Cache Array Recycling on [TMM::cmp_unit] with $static::signed(count) entries"
            unset -nocomplain static::signed
            set static::signed(count) 0
        }
    }
}

when HTTP_REQUEST {
    if { [catch {
        if { $static::signed([HTTP::cookie value $static::sign_session]:$owner) ne [HTTP::cookie value $static::sign_name] } {
            HTTP::cookie remove $static::sign_session
        }
    }] } then {
        set session [HTTP::cookie value $static::sign_session]
        set given [HTTP::cookie value $static::sign_name]
        if { ($session eq "") or ($given eq "") } {
            HTTP::cookie remove $static::sign_session
        } else {
            eval $static::sign_script
            if { $token eq $given } then {
                if { [incr static::signed(count)] > $static::sign_most } {
                    unset -nocomplain static::signed
                    set static::signed(count) 1
                }
                set static::signed($session:$owner) $token
            }
            else {
                HTTP::cookie remove $static::sign_session
            }
        }
    }
}

when HTTP_RESPONSE {
    set session [HTTP::cookie value $static::sign_session]
    if { $session ne "" } {
        if { [catch { set token $static::signed($session:$owner) }] } {
            if { [incr static::signed(count)] > $static::sign_most } {
                unset -nocomplain static::signed
                set static::signed(count) 1
            }
            eval $static::sign_script
            set static::signed($session:$owner) $token
        }
        HTTP::header insert "Set-Cookie" "$static::sign_name=$token; HttpOnly; Secure; Path=/"
    }
}
