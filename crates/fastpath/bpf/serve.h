/* The way of a packet whose flow is known: follow the state, rewrite or encapsulate, send it to the hop that the flow
 * remembers. Per family. */
#ifndef SERVE_CONSTANTS
#define SERVE_CONSTANTS
/* Beside XDP's verdicts: the flow's member is gone, another has to be chosen. */
#define MOVE (-2)
/* The flow has gone while its packet was looked at. */
#define LOST (-4)
/* A flow was drafted for the packet, which is to be entered. */
#define ENTER (-3)
#endif

/* The flow's state and time after this packet. A flow that another CPU has just removed, or changed otherwise, is left
 * as it is. */
INLINE void F(follow)(const PACKET *p, FLOW *f, int direction)
{
    union state_word old = {.all = READ_ONCE(*STATE_WORD(f))}, new = old;

    if (p->proto == IPPROTO_TCP) {
        if ((old.state != STATE_ESTABLISHED || p->tcp & (TCP_SYN | TCP_FIN | TCP_RST)) && !(p->kind & KIND_LATER)) {
            __u8 flags = old.flags;

            new.state = tcp_next(old.state, &flags, p->tcp, direction, old.way < WAY_DIRECT);
            new.flags = flags;
        }
    } else if (old.state == STATE_UDP) {
        /* A question and its answer are soon over; what goes on after them is a stream. */
        if (direction)
            new.flags |= FLOW_CONFIRMED;
        else if (old.flags & FLOW_CONFIRMED || (old.way >= WAY_DIRECT && f->seen != f->created))
            new.state = STATE_UDP_STREAM;
    }
    if (new.all != old.all && old.state && __sync_val_compare_and_swap(STATE_WORD(f), old.all, new.all) == old.all &&
        new.state == STATE_SYN_SENT && old.state != new.state) {
        f->created = p->now;
        count(FLOW_REOPENED);
    }
    /* Written only when it changes, so that the line stays clean. */
    if (f->seen != p->now)
        f->seen = p->now;
}

/* Looks up where the packets of a direction leave, and keeps it in the flow. ROUTED, or the reason for another verdict. */
STAGE int F(refresh)(struct xdp_md *ctx, const PACKET *p, const struct F(tuple) * t, FLOW *f, int direction)
{
    struct hop hop = {};
    __u32 out;
    int result;

    if (!p || !t || !f)
        return DROP_INTERNAL;
    result = F(route)(ctx, p, t, &hop, &out);
    count(HOP_REFRESHED);
    if (result == ROUTED) {
        keep_hop(&f->hops[direction & 1], &hop);
        f->fresh[direction & 1] = p->now >> HOP_SHIFT;
        if (probe_due(&hop, p->now))
            return PASS_PROBE;
    } else if (f->hops[direction & 1].port) {
        f->hops[direction & 1].port = 0;
    }
    return result;
}

/* Sends a packet of a flow on its way. `t` is room for the tuple with which it leaves; `entry` held `value` when the flow was found. MOVE when its member is gone,
 * LOST when the flow itself is. */
INLINE int F(serve)(struct xdp_md *ctx, PACKET *p, struct F(tuple) * t, FLOW *f, const __u64 *entry, __u64 value,
                    int direction)
{
    __u8 way = direction && f->way >= WAY_DIRECT ? WAY_PLAIN : f->way;
    struct member *member = NULL;
    struct port *port;
    struct hop hop;
    int reason = ROUTED;

    if (f->member) {
        __u32 key = f->member;

        member = bpf_map_lookup_elem(&members, &key);
        if (!member)
            return counted(DROP_INTERNAL, XDP_DROP);
        /* What a member that is gone still answers is for the client as ever. */
        if (unlikely(!member->state) && !direction)
            return MOVE;
        tally(&member_tallies, key, p->size, 0);
        tally(&virtual_tallies, f->virtual_server, p->size, 0);
    }
    if (unlikely(p->kind & KIND_OPTIONS) && way == WAY_PLAIN)
        return counted(PASS_OPTIONS, XDP_PASS);
    if (way == WAY_TRANSLATE)
        F(leaving)(t, f, direction);
    else
        F(unchanged)(t, p);
    hop = kept_hop(&f->hops[direction & 1]);
    /* Had the slot become another flow's meanwhile, the entry would have gone first. */
    if (unlikely(READ_ONCE(*entry) != value))
        return LOST;
    F(follow)(p, f, direction);
    if (way >= WAY_DIRECT)
        return member ? F(deliver)(ctx, p, f, member, hop) : counted(DROP_INTERNAL, XDP_DROP);
    if (unlikely((__u16)((p->now >> HOP_SHIFT) - f->fresh[direction & 1]) > HOP_AGE(cfg.hz) || !hop.port ||
                 hop.flags)) {
        reason = F(refresh)(ctx, p, t, f, direction);
        if (reason == ROUTED)
            hop = kept_hop(&f->hops[direction & 1]);
        else if (reason != PASS_NO_NEIGHBOUR && reason != PASS_PROBE && reason != PASS_TOO_BIG)
            return F(unrouted)(reason);
    }
    if (unlikely(p->ttl <= 1)) {
        if (way == WAY_PLAIN)
            return counted(PASS_TTL, XDP_PASS);
        return F(answer_ttl)(ctx, p);
    }
    port = reason == ROUTED ? port_at(hop.port) : NULL;
    if (unlikely(reason == PASS_TOO_BIG || (port && p->size > port->mtu))) {
        if (way == WAY_PLAIN)
            return counted(PASS_TOO_BIG, XDP_PASS);
        if (!F(may_fragment)(ctx))
            return F(answer_too_big)(ctx, p, port ? port->mtu : F(path_mtu)(ctx, p, t));
        /* The kernel does, once it is translated. */
        reason = PASS_TOO_BIG;
    }
    if (way == WAY_TRANSLATE && !F(translate)(ctx, p, t))
        return counted(DROP_MALFORMED, XDP_DROP);
    /* The kernel routes the packet as it now is. */
    if (unlikely(reason != ROUTED))
        return counted(reason, XDP_PASS);
    if (!port)
        return counted(DROP_INTERNAL, XDP_DROP);
    count(FORWARD_FLOW);
    return F(transmit)(ctx, &hop, port, true);
}

/* The same where time matters less. Nobody else changes the flow's place. */
STAGE int F(serve_apart)(struct xdp_md *ctx, PACKET *p, FLOW *f, int direction)
{
    struct F(work) *work = F(work)();
    __u64 none = 0;

    if (!p || !f || !work)
        return counted(DROP_INTERNAL, XDP_DROP);
    return F(serve)(ctx, p, &work->leaving, f, &none, 0, direction);
}
