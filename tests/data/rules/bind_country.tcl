# A session belongs to the country from which it was begun.
when CLIENT_ACCEPTED {
    set owner [whereis [IP::client_addr] country]
}
