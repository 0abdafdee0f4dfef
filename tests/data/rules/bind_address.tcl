# A session belongs to the address from which it was begun.
when CLIENT_ACCEPTED {
    set owner [IP::client_addr]
}
