# Signs the session cookie of an application, and lets it in again only with its signature and from the same client.
#
# When the application sets its session cookie, a second one is set beside it: an HMAC-SHA256 over the session and what the
# client is known by. A request whose session cookie has no right signature loses the session cookie: to the application it
# comes from somebody who is not signed in. So sessions can neither be guessed nor be carried off to another client.
#
# Keys are in the file that the configuration names `hmac_cookie_key` (under `ifiles`), one a line of at least 32
# characters: the first signs, all are accepted, so that a new one is put in front and the old one taken out later. Without
# the file there are no sessions at all: each session cookie is taken out, and the log says why.
#
# What a client is known by is `hmac_cookie_bind`: `address`, `subject` (of its certificate) or `nothing`.
#
# The cache spares the HMAC. It holds proven pairs of a session and its signature only, so that nobody fills it by guessing,
# and looks them up as a whole, so that no comparison stops where a guess goes wrong. It has two generations of at most
# half of `hmac_cookie_most` entries each, on each worker: when the younger one is full or `hmac_cookie_age` seconds old, it becomes
# the older one, and that is forgotten. What is used comes along.

when RULE_INIT {
    set static::hmac_cookie_session "ASP.NET_SessionId"
    set static::hmac_cookie_name "ASP.NET_SessionId_HMAC"
    set static::hmac_cookie_bind address
    set static::hmac_cookie_flags "Path=/; Secure; HttpOnly; SameSite=Lax"
    set static::hmac_cookie_most 100000
    set static::hmac_cookie_age 3600

    set static::hmac_cookie_keys {}
    if { [catch { set file [ifile get hmac_cookie_key] }] } {
        log local0.alert "HMAC cookie: the configuration names no file hmac_cookie_key: no session is let in"
    } else {
        foreach line [split $file "\n"] {
            set line [string trim $line]
            if { [string length $line] >= 32 } {
                lappend static::hmac_cookie_keys $line
            } elseif { $line ne "" } {
                log local0.alert "HMAC cookie: a key of fewer than 32 characters is not used"
            }
        }
    }
    # The generation that is filled, how many entries it has, and since when. The other one is 1 less it.
    set static::hmac_cookie_generation 0
    set static::hmac_cookie_count 0
    set static::hmac_cookie_since [clock seconds]
    unset -nocomplain static::hmac_cookie_cache0 static::hmac_cookie_cache1
}

# Turns the generations where it is time, and keeps a proven pair.
proc hmac_cookie_keep { pair } {
    set now [clock seconds]
    if { ($static::hmac_cookie_count * 2 >= $static::hmac_cookie_most) or ($now - $static::hmac_cookie_since >= $static::hmac_cookie_age) } {
        # What is older than a generation lasts is not to come back as the older one.
        if { $now - $static::hmac_cookie_since >= 2 * $static::hmac_cookie_age } {
            unset -nocomplain static::hmac_cookie_cache0 static::hmac_cookie_cache1
        }
        set static::hmac_cookie_generation [expr { 1 - $static::hmac_cookie_generation }]
        set static::hmac_cookie_count 0
        set static::hmac_cookie_since $now
        if { $static::hmac_cookie_generation } {
            unset -nocomplain static::hmac_cookie_cache1
        } else {
            unset -nocomplain static::hmac_cookie_cache0
        }
    }
    incr static::hmac_cookie_count
    if { $static::hmac_cookie_generation } {
        set static::hmac_cookie_cache1($pair) 1
    } else {
        set static::hmac_cookie_cache0($pair) 1
    }
}

# Whether a pair is in the cache.
proc hmac_cookie_known { pair } {
    if { [clock seconds] - $static::hmac_cookie_since >= 2 * $static::hmac_cookie_age } {
        return 0
    }
    if { [info exists static::hmac_cookie_cache0($pair)] } {
        set found 0
    } elseif { [info exists static::hmac_cookie_cache1($pair)] } {
        set found 1
    } else {
        return 0
    }
    if { $found != $static::hmac_cookie_generation } {
        # Of the older generation: it comes along, or is over.
        if { [clock seconds] - $static::hmac_cookie_since >= $static::hmac_cookie_age } {
            return 0
        }
        call hmac_cookie_keep $pair
    }
    return 1
}

proc hmac_cookie_sign { key text } {
    return [b64encode [CRYPTO::sign -alg hmac-sha256 -key $key $text]]
}

when CLIENT_ACCEPTED {
    switch -- $static::hmac_cookie_bind {
        address { set hmac_cookie_client [IP::client_addr] }
        default { set hmac_cookie_client "" }
    }
}

when CLIENTSSL_HANDSHAKE {
    if { ($static::hmac_cookie_bind eq "subject") and ([SSL::cert count] > 0) } {
        set hmac_cookie_client [X509::subject [SSL::cert 0]]
    }
}

when HTTP_REQUEST {
    # Another rule may have answered.
    if { [HTTP::has_responded] } {
        return
    }
    set hmac_cookie_value [HTTP::cookie value $static::hmac_cookie_session]
    if { $hmac_cookie_value eq "" } {
        return
    }
    # One that is proven must not bring along another, which applications might take instead.
    if { [llength [lsearch -all -exact [HTTP::cookie names] $static::hmac_cookie_session]] > 1 } {
        HTTP::cookie remove $static::hmac_cookie_name
        HTTP::cookie remove $static::hmac_cookie_session
        return
    }
    set hmac_cookie_given [HTTP::cookie value $static::hmac_cookie_name]
    set hmac_cookie_text "$hmac_cookie_value\n$hmac_cookie_client"
    # The application has no use for it.
    HTTP::cookie remove $static::hmac_cookie_name
    if { [call hmac_cookie_known "$hmac_cookie_text\n$hmac_cookie_given"] } {
        return
    }
    if { $hmac_cookie_given ne "" } {
        foreach hmac_cookie_key $static::hmac_cookie_keys {
            # Hashes are compared, so that the time it takes says nothing of the signature.
            if { [sha256 [call hmac_cookie_sign $hmac_cookie_key $hmac_cookie_text]] eq [sha256 $hmac_cookie_given] } {
                call hmac_cookie_keep "$hmac_cookie_text\n$hmac_cookie_given"
                return
            }
        }
    }
    HTTP::cookie remove $static::hmac_cookie_session
}

when HTTP_RESPONSE {
    if { [llength $static::hmac_cookie_keys] == 0 } {
        return
    }
    set hmac_cookie_value [HTTP::cookie value $static::hmac_cookie_session]
    if { $hmac_cookie_value eq "" } {
        return
    }
    set hmac_cookie_text "$hmac_cookie_value\n$hmac_cookie_client"
    set hmac_cookie_given [call hmac_cookie_sign [lindex $static::hmac_cookie_keys 0] $hmac_cookie_text]
    call hmac_cookie_keep "$hmac_cookie_text\n$hmac_cookie_given"
    HTTP::header insert Set-Cookie "$static::hmac_cookie_name=$hmac_cookie_given; $static::hmac_cookie_flags"
}
