/* The first packet for a virtual: choose a member, begin the flow. Per family. */
#ifndef BALANCE_CONSTANTS
#define BALANCE_CONSTANTS
/* Places of the ring that are tried while they lead to members that have gone down since it was made. */
#define RING_STEPS 16
#endif

INLINE FLOW *F(draft)(const PACKET *p);

/* The key by which the ring is asked. It must not differ between machines, which may take over from each other in the midst
 * of a flow: so it is another hash than the tables', without their secret. */
INLINE __u32 F(steer)(const PACKET *p, bool by_source)
{
    __u64 ports = by_source ? 0 : (__u64)p->sport << 16 | p->dport;
    __u64 x = p->src.w[0], y = by_source ? 0 : p->dst.w[0];

#if FAMILY == 6
    x = (x << 32 | p->src.w[1]) * K1 ^ ((__u64)p->src.w[2] << 32 | p->src.w[3]);
    if (!by_source)
        y = (y << 32 | p->dst.w[1]) * K4 ^ ((__u64)p->dst.w[2] << 32 | p->dst.w[3]);
#endif
    x ^= x >> 31;
    x = x * K2 + ports;
    x ^= x >> 29;
    x = x * K3 + y;
    x ^= x >> 32;
    x *= K5;
    return x >> 32;
}

/* The member for a new flow, with its record; 0 if none can have it. */
INLINE __u32 F(choose)(const PACKET *p, const struct virtual_server *v, struct member **member)
{
    __u32 index = v->ring, place;
    void *ring = bpf_map_lookup_elem(&rings, &index);

    if (!ring || !v->members)
        return 0;
    place = scale(F(steer)(p, v->affinity), v->ring_size);
#pragma clang loop unroll(disable)
    for (int i = 0; i < RING_STEPS; i++) {
        __u32 *number = bpf_map_lookup_elem(ring, &place);
        struct member *m;

        if (!number)
            return 0;
        m = bpf_map_lookup_elem(&members, number);
        if (m && m->state & MEMBER_UP) {
            *member = m;
            return *number;
        }
        place = place + 1 < v->ring_size ? place + 1 : 0;
    }
    return 0;
}

/* Begins a flow of virtual `number` with this packet. A TCP flow whose beginning was not seen may be another machine's: it
 * goes where that one has sent it, which can be told unless the client's address is translated. */
STAGE int F(balance)(struct xdp_md *ctx, PACKET *p, __u32 number)
{
    struct virtual_server *v = bpf_map_lookup_elem(&virtual_servers, &number);
    const struct source *source = NULL;
    struct member *member;
    __u32 chosen;
    FLOW *f;
    int reason;

    if (!v || !p)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (v->way == WAY_TRANSLATE && v->source.kind != SNAT_NONE && !(p->kind & KIND_MOVED) &&
        p->proto == IPPROTO_TCP && (p->tcp & (TCP_SYN | TCP_ACK | TCP_RST)) != TCP_SYN)
        return counted(DROP_NOT_A_START, XDP_DROP);
    chosen = F(choose)(p, v, &member);
    if (!chosen)
        return counted(DROP_NO_MEMBER, XDP_DROP);
    f = F(draft)(p);
    if (!f)
        return counted(DROP_INTERNAL, XDP_DROP);
    f->way = v->way;
    f->virtual_server = number;
    f->member = chosen;
    f->idle = v->idle;
    if (v->way == WAY_TRANSLATE) {
        /* Its record would be read as an address of this family. */
        if (member->family != FAMILY)
            return counted(DROP_NO_MEMBER, XDP_DROP);
        F(narrow)(&f->ndst, member->addr);
        if (member->port && !v->keep_port)
            f->ndport = member->port;
        if (v->source.kind != SNAT_NONE)
            source = &v->source;
        else
            source = F(hairpin)(p, &f->ndst);
        if (source) {
            reason = F(allocate)(ctx, p, f, source);
            if (reason)
                return counted(reason, XDP_DROP);
        }
    }
    return ENTER;
}
