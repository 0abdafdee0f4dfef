# Signs a session cookie; what is not signed rightly is taken out. Proven signatures are kept in an array, whose missing
# elements are found out by catch.
when RULE_INIT {
    set static::sign_key "a key that is used in tests alone"
    set static::sign_session "ASP.NET_SessionId"
    set static::sign_name "ASP.NET_SessionId_HMAC"
    set static::sign_most 100000
    unset -nocomplain static::signed
    set static::signed(count) 0
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
            set token [b64encode [CRYPTO::sign -alg hmac-sha256 -key $static::sign_key "$session:$owner"]]
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
            set token [b64encode [CRYPTO::sign -alg hmac-sha256 -key $static::sign_key "$session:$owner"]]
            set static::signed($session:$owner) $token
        }
        HTTP::header insert "Set-Cookie" "$static::sign_name=$token; HttpOnly; Secure; Path=/"
    }
}
