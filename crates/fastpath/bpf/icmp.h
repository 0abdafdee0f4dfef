/* ICMP errors that belong to flows (RFC 5508, RFC 7690): what they quote is the packet as it left here. They go where the
 * flow's packets in their direction go, changed as those are, both outside and in what is quoted. They never change the
 * flow. Per family. */
#ifndef ICMP_CONSTANTS
#define ICMP_CONSTANTS
/* Rewrites 16 bits that a checksum covers, at an even place. What that adds to sums. */
INLINE __u64 replace(__be16 *at, __be16 with)
{
    __u64 delta = replaced16(*at, with);

    *at = with;
    return delta;
}
#endif

/* An error that is worked on. */
struct F(error)
{
    PACKET quoted;       /* the packet that would be the quoted one's answer, as it would arrive */
    struct F(tuple) out; /* the same as it would leave */
    FLOW flow;           /* a copy */
};
PER_CPU(F(errors), struct F(error), 1);

INLINE struct F(error) * F(error)(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&F(errors), &zero);
}

/* Reads what an error quotes. Where its header of layer 4 begins, from the frame's start; 0 if it can be of no flow. */
STAGE int F(read_quoted)(struct xdp_md *ctx, const PACKET *p)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct F(error) *error = F(error)();
    __u32 at, l4;
    PACKET *q;
    struct {
        __be16 word[4];
    } *ports;

    if (!p || !error)
        return 0;
    q = &error->quoted;
    at = p->l4 + ICMP_HEADER;
#if FAMILY == 4
    struct iphdr *ip = data + at;

    if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(IPV4_OFFSET))
        return 0;
    q->src.w[0] = ip->daddr;
    q->dst.w[0] = ip->saddr;
    q->proto = ip->protocol;
    l4 = at + ip->ihl * 4;
#else
    struct ipv6hdr *ip = data + at;

    if ((void *)(ip + 1) > end || ip->version != 6)
        return 0;
    __builtin_memcpy(&q->src, &ip->daddr, sizeof(q->src));
    __builtin_memcpy(&q->dst, &ip->saddr, sizeof(q->dst));
    q->proto = ip->nexthdr;
    l4 = at + sizeof(*ip);
#endif
    q->sport = q->dport = 0;
    q->now = p->now;
    q->kind = 0;
    /* Who quotes a packet tells its sender. */
    if (!F(same)(&q->dst, &p->dst))
        return 0;
    ports = data + l4;
    switch (q->proto) {
    case IPPROTO_TCP:
    case IPPROTO_UDP:
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
        /* RFC 792 promises eight bytes. */
        if ((void *)(ports + 1) > end || l4 + sizeof(*ports) > ETH_HLEN + (__u32)p->size)
            return 0;
    }
    if (q->proto == IPPROTO_TCP || q->proto == IPPROTO_UDP) {
        q->sport = ports->word[1];
        q->dport = ports->word[0];
#if FAMILY == 4
    } else if (q->proto == IPPROTO_ICMP) {
        __u8 type = bpf_ntohs(ports->word[0]) >> 8;

        if (type == ICMP_ECHO)
            q->dport = ports->word[2];
        else if (type == ICMP_ECHOREPLY)
            q->sport = ports->word[2];
        else
            return 0;
#else
    } else if (q->proto == IPPROTO_ICMPV6) {
        __u8 type = bpf_ntohs(ports->word[0]) >> 8;

        if (type == ICMPV6_ECHO_REQUEST)
            q->dport = ports->word[2];
        else if (type == ICMPV6_ECHO_REPLY)
            q->sport = ports->word[2];
        else
            return 0;
#endif
    }
    return l4;
}

/* Copies the flow of what was quoted. The direction in which its answer would go, or -1. */
STAGE int F(flow_quoted)(struct xdp_md *ctx)
{
    struct F(error) *error = F(error)();
    struct F(found) found;
    PACKET *q;
    __u64 hash;

    KEEP(ctx);
    if (!error)
        return -1;
    q = &error->quoted;
    hash = F(hash)(&q->src, &q->dst, q->sport, q->dport, q->proto);
    if (!(F(find)(q, hash, &found) && !F(expired)(found.flow, q->now)) && !F(half_find)(q, hash, &found))
        return -1;
    error->flow = *found.flow;
    /* Had the slot become another flow's meanwhile, the entry would have gone first. */
    if (READ_ONCE(*found.entry) != found.value)
        return -1;
    return found.direction;
}

/* Rewrites what the error quotes of layer 4, where addresses have changed by `addresses`. What that adds to the error's
 * sum. */
INLINE __u64 F(translate_quoted_ports)(struct F(error) * error, void *l4, void *end, bool has_tcp_check,
                                        __u64 addresses)
{
    const PACKET *q = &error->quoted;
    const struct F(tuple) *t = &error->out;
    __be16 *word = l4;
    __u64 delta;

    if ((void *)(word + 4) > end)
        return 0;
    if (q->proto == IPPROTO_TCP || q->proto == IPPROTO_UDP) {
        delta = replace(&word[0], t->dport) + replace(&word[1], t->sport);
        if (q->proto == IPPROTO_UDP && word[3]) {
            __sum16 check = adjusted(word[3], addresses + delta);

            delta += replace(&word[3], check ? check : 0xffff);
        }
        if (q->proto == IPPROTO_TCP && has_tcp_check && (void *)(word + 9) <= end)
            delta += replace(&word[8], adjusted(word[8], addresses + delta));
        return delta;
    }
#if FAMILY == 4
    if (q->proto == IPPROTO_ICMP) {
        delta = replace(&word[2], bpf_ntohs(word[0]) >> 8 == ICMP_ECHO ? t->dport : t->sport);
        return delta + replace(&word[1], adjusted(word[1], delta));
    }
#else
    if (q->proto == IPPROTO_ICMPV6) {
        delta = replace(&word[2], bpf_ntohs(word[0]) >> 8 == ICMPV6_ECHO_REQUEST ? t->dport : t->sport);
        return delta + replace(&word[1], adjusted(word[1], addresses + delta));
    }
#endif
    return 0;
}

/* Rewrites an error, and in it the packet it quotes, whose layer 4 begins at `l4`. 0 unless it is cut short. */
STAGE int F(translate_error)(struct xdp_md *ctx, const PACKET *p, __u32 l4)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct F(error) *error = F(error)();
    const struct F(tuple) *t;
    const PACKET *q;
    __u64 addresses, outer, delta;
    ADDR source;
    __be16 *icmp;

    if (!p || !error || l4 > 512)
        return -1;
    q = &error->quoted;
    t = &error->out;
    icmp = data + p->l4;
    if ((void *)icmp + ICMP_HEADER > end)
        return -1;
    addresses = F(address_delta)(&q->dst, &t->dst) + F(address_delta)(&q->src, &t->src);
    /* A router's own address stays, but where the flow's source is hidden it is hidden as well. */
    source = F(same)(&q->src, &t->src) ? p->src : t->src;
    outer = F(address_delta)(&p->src, &source) + F(address_delta)(&p->dst, &t->dst);
#if FAMILY == 4
    struct iphdr *ip = data + ETH_HLEN, *inner = data + p->l4 + ICMP_HEADER;

    if ((void *)(ip + 1) > end || (void *)(inner + 1) > end)
        return -1;
    ip->saddr = source.w[0];
    ip->daddr = t->dst.w[0];
    ip->check = adjusted(ip->check, outer);
    inner->saddr = t->dst.w[0];
    inner->daddr = t->src.w[0];
    delta = addresses + replace(&inner->check, adjusted(inner->check, addresses));
#else
    struct ipv6hdr *ip = data + ETH_HLEN, *inner = data + p->l4 + ICMP_HEADER;

    if ((void *)(ip + 1) > end || (void *)(inner + 1) > end)
        return -1;
    __builtin_memcpy(&ip->saddr, &source, sizeof(ip->saddr));
    __builtin_memcpy(&ip->daddr, &t->dst, sizeof(ip->daddr));
    __builtin_memcpy(&inner->saddr, &t->dst, sizeof(inner->saddr));
    __builtin_memcpy(&inner->daddr, &t->src, sizeof(inner->daddr));
    delta = outer + addresses;
#endif
    /* Bytes after the packet's end are padding. */
    delta += F(translate_quoted_ports)(error, data + l4, end, l4 + 18 <= ETH_HLEN + (__u32)p->size, addresses);
    replace(&icmp[1], adjusted(icmp[1], delta));
    return 0;
}

/* Sends an error on as packets of its translated flow in the direction are. */
STAGE int F(send_error)(struct xdp_md *ctx, PACKET *p, __u32 l4, int direction)
{
    struct F(error) *error = F(error)();
    struct hop hop = {};
    struct port *port;
    __u32 out;
    int reason;

    if (!p || !error)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (p->ttl <= 1)
        return counted(DROP_TTL, XDP_DROP);
    F(leaving)(&error->out, &error->flow, direction);
    if (F(translate_error)(ctx, p, l4))
        return counted(DROP_MALFORMED, XDP_DROP);
    reason = F(route)(ctx, p, &error->out, &hop, &out);
    if (reason != ROUTED)
        return F(unrouted)(reason);
    port = port_at(hop.port);
    if (!port)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (p->size > port->mtu)
        return counted(PASS_TOO_BIG, XDP_PASS);
    count(FORWARD_ICMP);
    return F(transmit)(ctx, &hop, port, true);
}

/* The flow that an error for a virtual would have, were it here: routers choose this machine or another by the error's own
 * addresses, not by what it quotes. False if the virtual's members do not answer by themselves. */
STAGE int F(flow_elsewhere)(struct xdp_md *ctx)
{
    struct F(error) *error = F(error)();
    struct member *member;
    struct virtual_server *v;
    __u32 number;
    FLOW *f;

    KEEP(ctx);
    if (!error)
        return false;
    number = F(virtual_of)(&error->quoted);
    v = bpf_map_lookup_elem(&virtual_servers, &number);
    if (!number || !v || v->way < WAY_DIRECT)
        return false;
    f = &error->flow;
    __builtin_memset(f, 0, sizeof(*f));
    f->member = F(choose)(&error->quoted, v, &member);
    f->way = v->way;
    f->virtual_server = number;
    f->proto = error->quoted.proto;
    f->seen = f->created = error->quoted.now;
    return f->member != 0;
}

/* Sends an error to whom it concerns, rewritten as its flow says. GO_ON if it belongs to no flow. */
STAGE int F(icmp_error)(struct xdp_md *ctx, PACKET *p)
{
    struct F(error) *error = F(error)();
    int l4, direction, verdict;

    if (!p || !error)
        return counted(DROP_INTERNAL, XDP_DROP);
    l4 = F(read_quoted)(ctx, p);
    if (!l4)
        return GO_ON;
    direction = F(flow_quoted)(ctx);
    if (direction < 0) {
        /* An earlier table may know it, or a later one. */
        if (cfg.drains || is_retired() || !cfg.virtuals)
            return GO_ON;
        if (!F(flow_elsewhere)(ctx))
            return F(has_virtuals)(&error->quoted) ? counted(PASS_ICMP, XDP_PASS) : GO_ON;
        direction = 0;
    }
    if (error->flow.way == WAY_TRANSLATE)
        return F(send_error)(ctx, p, l4, direction);
    if (error->flow.way == WAY_PLAIN || direction)
        return F(forward)(ctx, p);
    /* The member that sent what is quoted. What this changes of the flow, it changes of the copy. */
    verdict = F(serve_apart)(ctx, p, &error->flow, 0);
    return verdict == MOVE || verdict == LOST ? counted(DROP_NO_MEMBER, XDP_DROP) : verdict;
}
