/* What becomes of a packet of no known flow: a virtual, source NAT, a tracked or a plain route. Per family. */
#ifndef BEGIN_CONSTANTS
#define BEGIN_CONSTANTS
struct begin_scratch4 {
    struct flow4 flow;
};
struct begin_scratch6 {
    struct flow6 flow;
};
/* The flow that is being made: too large for the stack beside all else. */
PER_CPU(scratch4, struct begin_scratch4, 1);
PER_CPU(scratch6, struct begin_scratch6, 1);

INLINE __u8 first_state(__u8 proto, __u8 tcp)
{
    switch (proto) {
    case IPPROTO_TCP:
        return (tcp & (TCP_SYN | TCP_ACK)) == TCP_SYN ? STATE_SYN_SENT : STATE_ESTABLISHED;
    case IPPROTO_UDP:
        return STATE_UDP;
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
        return STATE_ICMP;
    }
    return STATE_OTHER;
}
#endif

/* A flow as its first packet says, not translated, in this CPU's scratch. */
INLINE FLOW *F(draft)(const PACKET *p)
{
    __u32 zero = 0;
    struct F(begin_scratch) *scratch = bpf_map_lookup_elem(&F(scratch), &zero);
    FLOW *f;

    if (!scratch)
        return NULL;
    f = &scratch->flow;
    __builtin_memset(f, 0, sizeof(*f));
    f->src = f->nsrc = p->src;
    f->dst = f->ndst = p->dst;
    f->sport = f->nsport = p->sport;
    f->dport = f->ndport = p->dport;
    f->proto = p->proto;
    f->state = first_state(p->proto, p->tcp);
    if (p->proto == IPPROTO_TCP && f->state != STATE_SYN_SENT)
        f->flags = FLOW_PICKED_UP;
    f->seen = f->created = p->now;
    return f;
}

/* Whether a flow may begin with this packet. */
INLINE bool F(may_begin)(const PACKET *p)
{
    if (p->kind & (KIND_LATER | KIND_ERROR | KIND_CONTROL))
        return false;
    if (p->proto == IPPROTO_TCP && p->tcp & TCP_RST)
        return false;
    /* The answer to an echo that nobody sent. */
#if FAMILY == 4
    return !(p->proto == IPPROTO_ICMP && p->icmp == ICMP_ECHOREPLY);
#else
    return !(p->proto == IPPROTO_ICMPV6 && p->icmp == ICMPV6_ECHO_REPLY);
#endif
}

/* The virtual that a packet is for, or 0. */
INLINE __u32 F(virtual_of)(const PACKET *p)
{
    struct vip_key key = {};
    struct spans *spans;
    __u32 *number;

    F(widen)(key.addr, &p->dst);
    key.port = p->dport;
    key.proto = p->proto;
    key.family = FAMILY;
    number = bpf_map_lookup_elem(&vips, &key);
    if (number)
        return *number;
    key.port = 0;
    spans = bpf_map_lookup_elem(&vip_spans, &key);
    if (!spans)
        return 0;
    for (int i = 0; i < SPANS; i++) {
        const struct span *span = &spans->span[i];

        if (!span->virtual_server)
            break;
        if (span->first <= bpf_ntohs(p->dport) && bpf_ntohs(p->dport) <= span->last)
            return span->virtual_server;
    }
    return 0;
}

/* Whether packets to the address and protocol may be for a virtual, whatever their port: each has spans, if only empty. */
INLINE bool F(has_virtuals)(const PACKET *p)
{
    struct vip_key key = {};

    F(widen)(key.addr, &p->dst);
    key.proto = p->proto;
    key.family = FAMILY;
    return bpf_map_lookup_elem(&vip_spans, &key) != NULL;
}

/* Enters a drafted flow, and sends its first packet. The hash is of its original tuple. */
INLINE int F(enter)(struct xdp_md *ctx, PACKET *p, FLOW *draft)
{
    __u64 hash = F(hash)(&draft->src, &draft->dst, draft->sport, draft->dport, draft->proto);
    __u32 slot;
    FLOW *f = F(half_insert)(draft, hash, &slot);
    bool linked = f && (draft->way != WAY_TRANSLATE ||
                        F(half_link)(F(hash)(&draft->nsrc, &draft->ndst, draft->nsport, draft->ndport, draft->proto), slot,
                                     p->now));
    __u64 none = 0;

    if (!linked && draft->way == WAY_TRANSLATE)
        return counted(DROP_TABLE_FULL, XDP_DROP);
    count(FLOW_CREATED);
    if (draft->virtual_server) {
        tally(&virtual_tallies, draft->virtual_server, 0, 1);
        tally(&member_tallies, draft->member, 0, 1);
    }
    /* A flow that needs no memory goes on without. */
    return F(serve)(ctx, p, f ? f : draft, &none, 0, 0);
}

/* Routes a packet that begins no flow, or begins one that is only followed. */
STAGE int F(begin)(struct xdp_md *ctx, PACKET *p)
{
    struct F(tuple) t;
    struct hop hop = {};
    struct port *port;
    __u32 number, out = 0;
    int reason;

    if (!p)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (cfg.virtuals) {
        if (unlikely(p->kind & KIND_LATER)) {
            if (F(has_virtuals)(p))
                return counted(DROP_FRAGMENT, XDP_DROP);
        } else {
            number = F(virtual_of)(p);
            if (number)
                return F(balance)(ctx, p, number);
        }
    }
    if (cfg.forward == FORWARD_OFF && !CFG(nat_rules))
        return counted(PASS_OFF, XDP_PASS);
    t.src = p->src;
    t.dst = p->dst;
    t.sport = p->sport;
    t.dport = p->dport;
    reason = F(route)(ctx, p, &t, &hop, &out);
    if (reason != ROUTED && reason != PASS_NO_NEIGHBOUR && reason != PASS_TOO_BIG)
        return F(unrouted)(reason);
    if (CFG(nat_rules)) {
        number = F(nat_rule)(p, out);
        if (number) {
            if (unlikely(!F(may_begin)(p)))
                return p->kind & KIND_LATER ? counted(DROP_FRAGMENT, XDP_DROP) : counted(PASS_ICMP, XDP_PASS);
            return F(source_nat)(ctx, p, number - 1, out);
        }
    }
    if (cfg.forward == FORWARD_OFF)
        return counted(PASS_OFF, XDP_PASS);
    if (unlikely(p->kind & KIND_OPTIONS))
        return counted(PASS_OPTIONS, XDP_PASS);
    if (unlikely(p->ttl <= 1))
        return counted(PASS_TTL, XDP_PASS);
    if (cfg.forward == FORWARD_TRACKED && F(may_begin)(p)) {
        FLOW *f = F(draft)(p);

        if (!f)
            return counted(DROP_INTERNAL, XDP_DROP);
        if (reason == ROUTED) {
            f->hops[0] = hop;
            f->fresh[0] = p->now >> HOP_SHIFT;
        }
        return F(enter)(ctx, p, f);
    }
    if (unlikely(reason != ROUTED))
        return F(unrouted)(reason);
    port = port_at(hop.port);
    if (!port)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (unlikely(p->size > port->mtu))
        return counted(PASS_TOO_BIG, XDP_PASS);
    count(FORWARD_ROUTE);
    return F(transmit)(ctx, &hop, port, true);
}
