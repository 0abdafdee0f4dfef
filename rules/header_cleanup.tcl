# Takes out what servers and clients should not tell each other, and adds what browsers should be told.
#
# Requests: what only a proxy may say of a client (X-Forwarded-For and its kin) is taken out, and said anew by what is known
# here; `Proxy`, which some programs take for a setting (httpoxy), is taken out too.
# Responses: fields that name the server's software are taken out; security fields are added where the server has not set
# them itself. Strict-Transport-Security is sent over TLS alone, and not at all where its text is empty.

when RULE_INIT {
    set static::cleanup_request {
        X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Port X-Real-IP Forwarded True-Client-IP
        X-Client-IP X-Cluster-Client-IP X-Original-URL X-Rewrite-URL Proxy
    }
    set static::cleanup_response {
        Server X-Powered-By X-AspNet-Version X-AspNetMvc-Version X-Generator X-Runtime X-Version X-Drupal-Cache
        X-Varnish Via
    }
    # Names and values; empty values are not sent.
    set static::cleanup_add {
        X-Content-Type-Options nosniff
        X-Frame-Options SAMEORIGIN
        Referrer-Policy strict-origin-when-cross-origin
    }
    set static::cleanup_hsts "max-age=31536000"
    # Which local ports are served over TLS.
    set static::cleanup_tls_ports { 443 8443 }
}

when HTTP_REQUEST {
    # Another rule may have answered.
    if { [HTTP::has_responded] } {
        return
    }
    foreach cleanup_name $static::cleanup_request {
        HTTP::header remove $cleanup_name
    }
    set cleanup_tls [expr { [lsearch -exact $static::cleanup_tls_ports [TCP::local_port]] >= 0 }]
    HTTP::header insert X-Forwarded-For [IP::client_addr]
    if { $cleanup_tls } {
        HTTP::header insert X-Forwarded-Proto https
    } else {
        HTTP::header insert X-Forwarded-Proto http
    }
}

when HTTP_RESPONSE {
    foreach cleanup_name $static::cleanup_response {
        HTTP::header remove $cleanup_name
    }
    foreach { cleanup_name cleanup_value } $static::cleanup_add {
        if { ($cleanup_value ne "") and not [HTTP::header exists $cleanup_name] } {
            HTTP::header insert $cleanup_name $cleanup_value
        }
    }
    if { $cleanup_tls and ($static::cleanup_hsts ne "") and not [HTTP::header exists Strict-Transport-Security] } {
        HTTP::header insert Strict-Transport-Security $static::cleanup_hsts
    }
}
