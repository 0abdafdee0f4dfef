/* What becomes of a packet of no known flow: a virtual, source NAT, a tracked or a plain route. Per family. */
#ifndef BEGIN_CONSTANTS
#define BEGIN_CONSTANTS
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

/* A flow as its first packet says, not translated, in this CPU's memory. */
INLINE FLOW *F(draft)(const PACKET *p)
{
    struct F(work) *work = F(work)();
    FLOW *f;

    if (!work)
        return NULL;
    f = &work->draft;
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

/* Routes a packet without any state. */
STAGE int F(forward)(struct xdp_md *ctx, PACKET *p)
{
    struct F(work) *work = F(work)();
    struct hop hop = {};
    struct port *port;
    __u32 out = 0;
    int reason;

    if (!p || !work)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (cfg.forward == FORWARD_OFF)
        return counted(PASS_OFF, XDP_PASS);
    if (unlikely(!for_us(ctx)))
        return counted(PASS_OTHER_HOST, XDP_PASS);
    if (unlikely(p->kind & KIND_OPTIONS))
        return counted(PASS_OPTIONS, XDP_PASS);
    F(unchanged)(&work->leaving, p);
    reason = F(route)(ctx, p, &work->leaving, &hop, &out);
    if (unlikely(reason != ROUTED))
        return F(unrouted)(reason);
    if (unlikely(p->ttl <= 1))
        return counted(PASS_TTL, XDP_PASS);
    port = port_at(hop.port);
    if (!port)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (unlikely(p->size > port->mtu))
        return counted(PASS_TOO_BIG, XDP_PASS);
    count(FORWARD_ROUTE);
    return F(transmit)(ctx, &hop, port, true);
}

/* Decides on a packet of no known flow. ENTER if there is a draft. */
STAGE int F(decide)(struct xdp_md *ctx, PACKET *p)
{
    struct F(work) *work = F(work)();
    struct F(tuple) *t;
    struct hop hop = {};
    struct port *port;
    __u32 number, out = 0;
    int reason;

    if (!p || !work)
        return counted(DROP_INTERNAL, XDP_DROP);
    t = &work->leaving;
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
    F(unchanged)(t, p);
    reason = F(route)(ctx, p, t, &hop, &out);
    if (reason != ROUTED && reason != PASS_NO_NEIGHBOUR && reason != PASS_TOO_BIG)
        return F(unrouted)(reason);
    if (CFG(nat_rules)) {
        number = F(nat_rule)(p, out);
        if (number) {
            if (unlikely(!F(may_begin)(p)))
                return counted(p->kind & KIND_LATER ? DROP_FRAGMENT : DROP_NOT_A_START, XDP_DROP);
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
        return ENTER;
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

INLINE int F(begin)(struct xdp_md *ctx, struct F(work) * work)
{
    PACKET *p = &work->packet;
    int verdict = F(decide)(ctx, p), slot;
    FLOW *f;

    if (verdict != ENTER)
        return verdict;
    slot = F(enter)(p);
    if (slot == REFUSED)
        return XDP_DROP;
    f = slot == NO_ROOM ? &work->draft : F(flow_at)(&F(half_flows), slot);
    if (!f)
        return counted(DROP_INTERNAL, XDP_DROP);
    return F(serve_apart)(ctx, p, f, 0);
}
