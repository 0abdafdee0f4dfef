/* Where packets leave: the kernel's routes and neighbours, remembered in the flow. Per family. */
#ifndef ROUTE_CONSTANTS
#define ROUTE_CONSTANTS
/* A next hop is looked up again after this much of `jiffies >> HOP_SHIFT`: about a second at 250 Hz. */
#define HOP_AGE(hz) ((hz) >> HOP_SHIFT)
/* The kernel sees a packet for each neighbour once in so many seconds, or it would never ask whether it is still there. */
#define PROBE_SECONDS 15

#define ROUTED 0 /* the hop is known */

/* Whether it is time that the kernel looks after a neighbour. */
INLINE bool probe_due(const struct hop *hop, __u32 now)
{
    struct hop key = *hop;
    __u32 *last;

    key.flags = 0;
    last = bpf_map_lookup_elem(&neighbours, &key);
    if (!last) {
        /* The kernel has just found it. */
        bpf_map_update_elem(&neighbours, &key, &now, BPF_ANY);
        return false;
    }
    if (now - *last < PROBE_SECONDS * cfg.hz)
        return false;
    *last = now;
    return true;
}

/* A flow's next hop changes as one, so that no frame goes to one neighbour by the port of another. */
INLINE struct hop kept_hop(const struct hop *hop)
{
    union {
        __u64 all;
        struct hop hop;
    } copy = {.all = READ_ONCE(*(const __u64 *)hop)};

    return copy.hop;
}

INLINE void keep_hop(struct hop *to, const struct hop *hop)
{
    __u64 all;

    __builtin_memcpy(&all, hop, sizeof(all));
    WRITE_ONCE(*(__u64 *)to, all);
}

INLINE struct port *port_at(__u32 port)
{
    return bpf_map_lookup_elem(&ports, &port);
}

/* Whether a frame is for this machine: a switch sends what it does not know everywhere. */
INLINE bool for_us(struct xdp_md *ctx)
{
    struct ethhdr *eth = (void *)(long)ctx->data;
    __u32 ifindex = ctx->ingress_ifindex, *number = bpf_map_lookup_elem(&port_numbers, &ifindex);
    struct port *port = number ? port_at(*number) : NULL;

    if (!port || (void *)(eth + 1) > (void *)(long)ctx->data_end)
        return true;
    return *(__u32 *)eth->h_dest == *(__u32 *)port->mac && *(__u16 *)(eth->h_dest + 4) == *(__u16 *)(port->mac + 4);
}
#endif

/* What the kernel is asked of its routes: as the packet came, to where it leaves for. */
INLINE void F(question)(struct bpf_fib_lookup *fib, struct xdp_md *ctx, const PACKET *p, const struct F(tuple) * t)
{
    fib->family = AF;
    fib->l4_protocol = p->proto;
    fib->sport = p->sport;
    fib->dport = t->dport;
    fib->tot_len = p->size;
    fib->ifindex = ctx->ingress_ifindex;
#if FAMILY == 4
    fib->tos = p->tos;
    fib->ipv4_src = p->src.w[0];
    fib->ipv4_dst = t->dst.w[0];
#else
    fib->flowinfo = bpf_htonl(p->tos << 20);
    __builtin_memcpy(fib->ipv6_src, &p->src, sizeof(fib->ipv6_src));
    __builtin_memcpy(fib->ipv6_dst, &t->dst, sizeof(fib->ipv6_dst));
#endif
}

/* Asks the kernel where a packet leaves whose destination is the tuple's; as with the kernel's own translation, routes see
 * the source that it came with. ROUTED, or the reason for another verdict. `out` is where it would leave, even if the
 * neighbour is not known. */
STAGE int F(route)(struct xdp_md *ctx, const PACKET *p, const struct F(tuple) * t, struct hop *hop, __u32 *out)
{
    struct bpf_fib_lookup fib = {};
    struct port *port;
    __u32 *number;
    long result;

    if (!p || !t || !hop || !out)
        return DROP_INTERNAL;
    F(question)(&fib, ctx, p, t);
    result = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
    *out = fib.ifindex;
    switch (result) {
    case BPF_FIB_LKUP_RET_SUCCESS:
        break;
    case BPF_FIB_LKUP_RET_NO_NEIGH:
        return PASS_NO_NEIGHBOUR;
    case BPF_FIB_LKUP_RET_FRAG_NEEDED:
        return PASS_TOO_BIG;
    case BPF_FIB_LKUP_RET_BLACKHOLE:
        return DROP_BLACKHOLE;
    case BPF_FIB_LKUP_RET_UNREACHABLE:
    case BPF_FIB_LKUP_RET_PROHIBIT:
        return PASS_UNREACHABLE;
    case BPF_FIB_LKUP_RET_FWD_DISABLED:
        return PASS_OFF;
    default:
        /* For this machine; no route; or one with an encapsulation of its own. */
        return PASS_LOCAL;
    }
    number = bpf_map_lookup_elem(&port_numbers, &fib.ifindex);
    if (!number)
        return PASS_PORT;
    port = port_at(*number);
    if (!port)
        return PASS_PORT;
    __builtin_memcpy(hop->mac, fib.dmac, ETH_ALEN);
    hop->port = *number;
    /* The MTU of the route, if it has one of its own, binds each packet. */
    hop->flags = fib.mtu_result && fib.mtu_result < port->mtu ? HOP_UNCACHED : 0;
    return ROUTED;
}

/* One hop fewer. */
INLINE void F(count_hop)(void *l3)
{
#if FAMILY == 4
    struct iphdr *ip = l3;
    __u32 check = ip->check + bpf_htons(0x0100);

    ip->check = check + (check >= 0xffff);
    ip->ttl--;
#else
    struct ipv6hdr *ip = l3;

    ip->hop_limit--;
#endif
}

/* Sends the packet to the next hop. */
INLINE int F(transmit)(struct xdp_md *ctx, const struct hop *hop, const struct port *port, bool routed)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;

    if (data + ETH_HLEN + L3_BYTES > end)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (routed)
        F(count_hop)(data + ETH_HLEN);
    __builtin_memcpy(eth->h_dest, hop->mac, ETH_ALEN);
    __builtin_memcpy(eth->h_source, port->mac, ETH_ALEN);
    return bpf_redirect_map(&port_devices, hop->port, XDP_DROP);
}

/* The verdict for what the kernel's routes say other than where to send it. */
INLINE int F(unrouted)(int reason)
{
    return counted(reason, reason >= DROP_SHUN && reason < FLOW_CREATED ? XDP_DROP : XDP_PASS);
}
