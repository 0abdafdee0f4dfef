# Sends clients of plain HTTP to the same place by HTTPS.
#
# For the virtual on port 80. GET and HEAD are answered with 301; every other method with 308, by which clients keep the
# method and the body. Certificate authorities' HTTP challenges are let through to the pool.
#
# Hosts: without a data group `https_redirect_hosts` every host is sent on by the name it asked for. With one (string, names
# in lower case), other hosts are answered with 421, so that nobody can have this service redirect to a name of his choice.

when RULE_INIT {
    # The port of HTTPS, as clients see it.
    set static::https_redirect_port 443
    # What is not redirected.
    set static::https_redirect_except "/.well-known/acme-challenge/"
}

when HTTP_REQUEST {
    # Another rule may have answered.
    if { [HTTP::has_responded] } {
        return
    }
    if { [HTTP::path] starts_with $static::https_redirect_except } {
        return
    }
    # The name without its port; an IPv6 address keeps its brackets.
    set https_host [string tolower [HTTP::host]]
    if { $https_host starts_with "\[" } {
        set https_host [string range $https_host 0 [string first "\]" $https_host]]
    } else {
        set https_host [getfield $https_host ":" 1]
    }
    if { $https_host eq "" } {
        HTTP::respond 400 content "This request names no host.\n" noserver Content-Type "text/plain"
        return
    }
    if { [class exists https_redirect_hosts] } {
        if { not [class match $https_host equals https_redirect_hosts] } {
            HTTP::respond 421 content "This host is not served here.\n" noserver Content-Type "text/plain"
            return
        }
    }
    if { $static::https_redirect_port != 443 } {
        append https_host ":$static::https_redirect_port"
    }
    switch -- [HTTP::method] {
        GET -
        HEAD { set https_status 301 }
        default { set https_status 308 }
    }
    HTTP::respond $https_status noserver Location "https://$https_host[HTTP::uri]"
}
