/* Rewriting addresses and ports, with the checksums over them. Per family. */

struct F(tuple)
{
    ADDR src, dst;
    __be16 sport, dport;
};

/* The tuple with which a packet of the flow leaves. */
INLINE void F(leaving)(struct F(tuple) * t, const FLOW *f, int direction)
{
    if (!direction) {
        t->src = f->nsrc;
        t->dst = f->ndst;
        t->sport = f->nsport;
        t->dport = f->ndport;
    } else {
        t->src = f->dst;
        t->dst = f->src;
        t->sport = f->dport;
        t->dport = f->sport;
    }
}

/* The tuple of a packet that is not translated. */
INLINE void F(unchanged)(struct F(tuple) * t, const PACKET *p)
{
    t->src = p->src;
    t->dst = p->dst;
    t->sport = p->sport;
    t->dport = p->dport;
}

/* What changing one address to another adds to a sum. */
INLINE __u64 F(address_delta)(const ADDR *old, const ADDR *new)
{
    __u64 sum = 0;

#pragma clang loop unroll(full)
    for (int i = 0; i < WORDS; i++)
        sum += replaced(old->w[i], new->w[i]);
    return sum;
}

/* Rewrites the packet. False if it is cut short where it must be written, which its parser has excluded. */
INLINE bool F(translate)(struct xdp_md *ctx, const PACKET *p, const struct F(tuple) * t)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u64 addresses = F(address_delta)(&p->src, &t->src) + F(address_delta)(&p->dst, &t->dst);
    __u64 all = addresses + replaced16(p->sport, t->sport) + replaced16(p->dport, t->dport);
    void *l4 = data + p->l4;
#if FAMILY == 4
    struct iphdr *ip = data + ETH_HLEN;

    if ((void *)(ip + 1) > end)
        return false;
    ip->saddr = t->src.w[0];
    ip->daddr = t->dst.w[0];
    ip->check = adjusted(ip->check, addresses);
#else
    struct ipv6hdr *ip = data + ETH_HLEN;

    if ((void *)(ip + 1) > end)
        return false;
    __builtin_memcpy(&ip->saddr, &t->src, sizeof(ip->saddr));
    __builtin_memcpy(&ip->daddr, &t->dst, sizeof(ip->daddr));
#endif
    if (unlikely(p->kind & KIND_LATER))
        return true;
    if (p->proto == IPPROTO_TCP) {
        struct tcphdr *tcp = l4;

        if ((void *)(tcp + 1) > end)
            return false;
        tcp->source = t->sport;
        tcp->dest = t->dport;
        tcp->check = adjusted(tcp->check, all);
    } else if (p->proto == IPPROTO_UDP) {
        struct udphdr *udp = l4;

        if ((void *)(udp + 1) > end)
            return false;
        udp->source = t->sport;
        udp->dest = t->dport;
        /* 0 says that there is none (RFC 768). */
        if (udp->check) {
            udp->check = adjusted(udp->check, all);
            if (!udp->check)
                udp->check = 0xffff;
        }
#if FAMILY == 4
    } else if (p->proto == IPPROTO_ICMP) {
        struct icmphdr *icmp = l4;
        bool asks = p->icmp == ICMP_ECHO;
        __be16 old = asks ? p->sport : p->dport, new = asks ? t->sport : t->dport;

        if ((void *)(icmp + 1) > end)
            return false;
        /* ICMP of IPv4 has no pseudo-header. */
        icmp->un.echo.id = new;
        icmp->checksum = adjusted(icmp->checksum, replaced16(old, new));
#else
    } else if (p->proto == IPPROTO_ICMPV6) {
        struct icmp6hdr *icmp = l4;
        bool asks = p->icmp == ICMPV6_ECHO_REQUEST;
        __be16 old = asks ? p->sport : p->dport, new = asks ? t->sport : t->dport;

        if ((void *)(icmp + 1) > end)
            return false;
        icmp->icmp6_identifier = new;
        /* An identifier of 0 can't be told from the port that an echo does not have: only what is written counts. */
        icmp->icmp6_cksum = adjusted(icmp->icmp6_cksum, addresses + replaced16(old, new));
#endif
    }
    return true;
}
