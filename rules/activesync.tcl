# Keeps ActiveSync clients from locking their user out after a password change.
#
# When a user changes his password, his phones go on with the old one, several times a minute, and soon the directory locks
# the account. This rule remembers which passwords were refused, by user and device. One that was refused
# `activesync_tries` times is answered with 401 right here for `activesync_hold` seconds, without a word to the server: the
# directory counts nothing, and the phone asks its user for the new password. As soon as he gives it, it is another password,
# and goes through at once.
#
# Keep `activesync_tries` below the directory's lockout threshold, divided by the number of devices a user may have.
# Passwords are not stored, but an HMAC of what was sent. Set `activesync_secret` to a text of your own.
#
# Only Basic authentication to /Microsoft-Server-ActiveSync is looked at. Failed sign-ins elsewhere (OWA, EWS) are not held.

when RULE_INIT {
    set static::activesync_tries 2
    set static::activesync_hold 1800
    set static::activesync_realm "mail"
    set static::activesync_secret "set a text of your own here"
}

when HTTP_REQUEST {
    # Another rule may have answered.
    if { [HTTP::has_responded] } {
        return
    }
    set activesync_key ""
    if { not ([string tolower [HTTP::path]] starts_with "/microsoft-server-activesync") } {
        return
    }
    set activesync_sent [HTTP::header value Authorization]
    if { not ([string tolower $activesync_sent] starts_with "basic ") } {
        return
    }
    set activesync_user [string tolower [HTTP::username]]
    set activesync_device [URI::query [HTTP::uri] DeviceId]
    set activesync_mac [b64encode [CRYPTO::sign -alg hmac-sha256 -key $static::activesync_secret $activesync_sent]]
    set activesync_key "$activesync_user/$activesync_device/$activesync_mac"
    set activesync_failures [table lookup -notouch -subtable activesync $activesync_key]
    if { ($activesync_failures ne "") and ($activesync_failures >= $static::activesync_tries) } {
        set activesync_key ""
        HTTP::respond 401 content "The password was refused before. Please enter the new one.\n" noserver \
            WWW-Authenticate "Basic realm=\"$static::activesync_realm\"" Content-Type "text/plain"
    }
}

when HTTP_RESPONSE {
    if { $activesync_key eq "" } {
        return
    }
    if { [HTTP::status] == 401 } {
        set activesync_failures [table incr -notouch -subtable activesync $activesync_key]
        if { $activesync_failures == 1 } {
            table timeout -subtable activesync $activesync_key indefinite
            table lifetime -subtable activesync $activesync_key $static::activesync_hold
        }
        if { $activesync_failures == $static::activesync_tries } {
            log local0.notice "ActiveSync: the password that $activesync_user's device \"$activesync_device\" sends is held off for $static::activesync_hold s"
        }
    } elseif { [HTTP::status] < 400 } {
        table delete -subtable activesync $activesync_key
    }
}
