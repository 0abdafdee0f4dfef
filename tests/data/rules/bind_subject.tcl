# A session belongs to whom a certificate is for; nobody comes without one.
when CLIENTSSL_HANDSHAKE {
    if { ([SSL::cert count] > 0) and ([set owner [X509::subject [SSL::cert 0]]] ne "") } then {
        set known 1
    } else {
        reject
    }
}
