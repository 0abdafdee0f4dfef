# Limits how many requests a client address may make in a sliding window of time.
#
# Two counters an address are kept in the table that all workers share: of the window of the clock that goes on, and of the
# one before, of which that part counts which the sliding window still covers. So a client cannot double its share around
# the turn of a window, and a counter is all the memory a client takes.
#
# Requests over the limit get 429 with Retry-After, and count too: who goes on is let in again only when he pauses. A client
# that is over the limit `rate_limit_strikes` times within `rate_limit_memory` seconds is handed to the shun list for
# `rate_limit_shun` seconds (0: never), by which its packets are dropped before they are a connection.
#
# Addresses in the data group `rate_limit_exempt` (address) are not counted. IPv6 clients are counted by their /64, which is
# what one customer gets.

when RULE_INIT {
    # Requests, and in how many seconds.
    set static::rate_limit_requests 100
    set static::rate_limit_window 10
    set static::rate_limit_strikes 500
    set static::rate_limit_memory 60
    set static::rate_limit_shun 600
}

when CLIENT_ACCEPTED {
    if { [class exists rate_limit_exempt] and [class match [IP::client_addr] equals rate_limit_exempt] } {
        set rate_limit_who ""
    } elseif { [IP::version] == 6 } {
        set rate_limit_who [IP::addr [IP::client_addr] mask ffff:ffff:ffff:ffff::]
    } else {
        set rate_limit_who [IP::client_addr]
    }
}

when HTTP_REQUEST {
    # Another rule may have answered.
    if { [HTTP::has_responded] } {
        return
    }
    if { $rate_limit_who eq "" } {
        return
    }
    set rate_limit_now [clock seconds]
    set rate_limit_turn [expr { $rate_limit_now / $static::rate_limit_window }]
    set rate_limit_gone [expr { $rate_limit_now % $static::rate_limit_window }]
    set rate_limit_count [table incr -notouch -subtable rate_limit "$rate_limit_who $rate_limit_turn"]
    if { $rate_limit_count == 1 } {
        table timeout -subtable rate_limit "$rate_limit_who $rate_limit_turn" indefinite
        table lifetime -subtable rate_limit "$rate_limit_who $rate_limit_turn" [expr { 2 * $static::rate_limit_window }]
    }
    set rate_limit_before [table lookup -notouch -subtable rate_limit "$rate_limit_who [expr { $rate_limit_turn - 1 }]"]
    if { $rate_limit_before ne "" } {
        incr rate_limit_count [expr { $rate_limit_before * ($static::rate_limit_window - $rate_limit_gone) / $static::rate_limit_window }]
    }
    if { $rate_limit_count <= $static::rate_limit_requests } {
        return
    }
    HTTP::respond 429 content "Too many requests.\n" noserver Content-Type "text/plain" \
        Retry-After [expr { $static::rate_limit_window - $rate_limit_gone }] Cache-Control "no-store"
    if { $static::rate_limit_shun > 0 } {
        set rate_limit_strikes [table incr -notouch -subtable rate_limit_strikes $rate_limit_who]
        if { $rate_limit_strikes == 1 } {
            table timeout -subtable rate_limit_strikes $rate_limit_who indefinite
            table lifetime -subtable rate_limit_strikes $rate_limit_who $static::rate_limit_memory
        }
        if { $rate_limit_strikes == $static::rate_limit_strikes } {
            log local0.notice "Rate limit: [IP::client_addr] is shunned for $static::rate_limit_shun s"
            SHUN::add [IP::client_addr] $static::rate_limit_shun
        }
    }
}
