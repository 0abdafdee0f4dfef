/* To members that answer clients themselves: by their link address as the packet is, or encapsulated (RFC 2003, RFC 2473,
 * RFC 4213), where the member may be of the other family. Per family. */
#ifndef TUNNEL_CONSTANTS
#define TUNNEL_CONSTANTS
#define TUNNEL_TTL 64
#define IPV4_DONT_FRAGMENT 0x4000

/* Where the packets to a member leave. */
struct way_out {
    struct hop hop;
    __u32 mtu; /* of the route, where a packet is too big for it */
};

INLINE bool has_address(const __be32 *w)
{
    return w[0] | w[1] | w[2] | w[3];
}

/* Asks the kernel where a packet of `size` bytes to a member leaves, and notes in the member's record by which address of
 * ours. ROUTED, or the reason why it can't be sent; `out->mtu` is 0 unless the packet is too big for the route. */
STAGE int member_route(struct xdp_md *ctx, __u32 number, __u32 size, __u32 direct, struct way_out *out)
{
    struct member *m = bpf_map_lookup_elem(&members, &number);
    struct bpf_fib_lookup fib = {};
    __be32 source[4] = {}, next[4] = {};
    __u32 *port_number;
    struct port *port;
    bool known;
    long result;

    if (!m || !out)
        return DROP_INTERNAL;
    __builtin_memset(out, 0, sizeof(*out));
    fib.ifindex = ctx->ingress_ifindex;
    fib.tot_len = size;
    if (m->family == 6) {
        fib.family = AF_INET6;
        fib.l4_protocol = IPPROTO_IPV6;
        for (int i = 0; i < 4; i++)
            fib.ipv6_src[i] = cfg.tunnel_source6.w[i];
        __builtin_memcpy(fib.ipv6_dst, m->addr, sizeof(fib.ipv6_dst));
        known = has_address(fib.ipv6_src);
    } else {
        fib.family = AF_INET;
        fib.l4_protocol = IPPROTO_IPIP;
        fib.ipv4_src = cfg.tunnel_source4;
        fib.ipv4_dst = m->addr[0];
        known = fib.ipv4_src != 0;
    }
    result = known ? -1 : bpf_fib_lookup(ctx, &fib, sizeof(fib), LOOKUP_SRC);
    /* An older kernel does not know the flag; and direct delivery hardly needs the address. */
    if (result < 0 && (known || direct))
        result = bpf_fib_lookup(ctx, &fib, sizeof(fib), 0);
    count(HOP_REFRESHED);
    if (result == BPF_FIB_LKUP_RET_SUCCESS || result == BPF_FIB_LKUP_RET_NO_NEIGH) {
        if (m->family == 6) {
            __builtin_memcpy(source, fib.ipv6_src, sizeof(source));
            __builtin_memcpy(next, fib.ipv6_dst, sizeof(next));
        } else {
            source[0] = fib.ipv4_src;
            next[0] = fib.ipv4_dst;
        }
        /* Written only when it changes, so that the line stays clean. */
        if (has_address(source) && (source[0] != m->source[0] || source[1] != m->source[1] ||
                                    source[2] != m->source[2] || source[3] != m->source[3]))
            __builtin_memcpy(m->source, source, sizeof(source));
        /* A gateway would route it back to us: the address that it still bears is ours. */
        if (direct && (next[0] != m->addr[0] || next[1] != m->addr[1] || next[2] != m->addr[2] || next[3] != m->addr[3]))
            return DROP_NO_NEIGHBOUR;
    }
    switch (result) {
    case BPF_FIB_LKUP_RET_SUCCESS:
        break;
    case BPF_FIB_LKUP_RET_NO_NEIGH:
        return PASS_NO_NEIGHBOUR;
    case BPF_FIB_LKUP_RET_FRAG_NEEDED:
        out->mtu = fib.mtu_result;
        return PASS_TOO_BIG;
    case BPF_FIB_LKUP_RET_BLACKHOLE:
        return DROP_BLACKHOLE;
    case BPF_FIB_LKUP_RET_UNREACHABLE:
    case BPF_FIB_LKUP_RET_PROHIBIT:
        return PASS_UNREACHABLE;
    case BPF_FIB_LKUP_RET_FWD_DISABLED:
        return PASS_OFF;
    case BPF_FIB_LKUP_RET_NO_SRC_ADDR:
        return DROP_NO_ADDRESS;
    default:
        return result < 0 ? DROP_NO_ADDRESS : PASS_LOCAL;
    }
    port_number = bpf_map_lookup_elem(&port_numbers, &fib.ifindex);
    if (!port_number)
        return PASS_PORT;
    port = port_at(*port_number);
    if (!port)
        return PASS_PORT;
    __builtin_memcpy(out->hop.mac, fib.dmac, ETH_ALEN);
    out->hop.port = *port_number;
    out->hop.flags = fib.mtu_result && fib.mtu_result < port->mtu ? HOP_UNCACHED : 0;
    return ROUTED;
}

/* The outer header around `size` bytes of `inner`, a protocol number. */
INLINE void outer4(struct iphdr *ip, const struct member *m, __u8 inner, __u8 tos, __u16 size)
{
    __be32 source = m->source[0], target = m->addr[0];
    __u64 sum;

    ip->version = 4;
    ip->ihl = 5;
    ip->tos = tos;
    ip->tot_len = bpf_htons(size + sizeof(*ip));
    ip->id = 0;
    ip->frag_off = bpf_htons(IPV4_DONT_FRAGMENT);
    ip->ttl = TUNNEL_TTL;
    ip->protocol = inner;
    ip->saddr = source;
    ip->daddr = target;
    sum = (__u64)source + target + ip->tot_len + bpf_htons(0x4500 | tos) + bpf_htons(IPV4_DONT_FRAGMENT) +
          bpf_htons(TUNNEL_TTL << 8 | inner);
    ip->check = ~fold(sum);
}

/* The same of IPv6. `label` tells flows apart on the way (RFC 6438). */
INLINE void outer6(struct ipv6hdr *ip, const struct member *m, __u8 inner, __u8 tos, __u32 label, __u16 size)
{
    *(__be32 *)ip = bpf_htonl(6U << 28 | (__u32)tos << 20 | label);
    ip->payload_len = bpf_htons(size);
    ip->nexthdr = inner;
    ip->hop_limit = TUNNEL_TTL;
    __builtin_memcpy(&ip->saddr, m->source, sizeof(ip->saddr));
    __builtin_memcpy(&ip->daddr, m->addr, sizeof(ip->daddr));
}
#endif

#define F_INNER (FAMILY == 4 ? IPPROTO_IPIP : IPPROTO_IPV6)

/* Puts the packet into another one to the member. False if there is no room. The addresses of the link are left to the
 * caller. */
INLINE bool F(encapsulate)(struct xdp_md *ctx, const PACKET *p, const struct member *m)
{
    void *data, *end;
    struct ethhdr *eth;

    if (m->family == 6) {
        __u64 label = ((__u64)p->src.w[WORDS - 1] << 32 | p->sport << 16 | p->dport) * K1 >> 44;

        if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct ipv6hdr)))
            return false;
        data = (void *)(long)ctx->data;
        end = (void *)(long)ctx->data_end;
        if (data + ETH_HLEN + sizeof(struct ipv6hdr) > end)
            return false;
        eth = data;
        eth->h_proto = bpf_htons(ETH_P_IPV6);
        outer6(data + ETH_HLEN, m, F_INNER, p->tos, label, p->size);
        return true;
    }
    if (bpf_xdp_adjust_head(ctx, -(int)sizeof(struct iphdr)))
        return false;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + ETH_HLEN + sizeof(struct iphdr) > end)
        return false;
    eth = data;
    eth->h_proto = bpf_htons(ETH_P_IP);
    outer4(data + ETH_HLEN, m, F_INNER, p->tos, p->size);
    return true;
}

/* Leaves a packet to the kernel in the form in which it can do something with it: encapsulated. It routes it, and finds
 * the neighbour. */
STAGE int F(entrust)(struct xdp_md *ctx, const PACKET *p, __u32 number, int reason)
{
    struct member *m = bpf_map_lookup_elem(&members, &number);
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr old;

    if (!p || !m || data + ETH_HLEN > end)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (!has_address(m->source))
        return counted(DROP_NO_ADDRESS, XDP_DROP);
    __builtin_memcpy(&old, data, ETH_HLEN);
    if (!F(encapsulate)(ctx, p, m))
        return counted(DROP_INTERNAL, XDP_DROP);
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + ETH_HLEN > end)
        return counted(DROP_INTERNAL, XDP_DROP);
    __builtin_memcpy(data, &old, 2 * ETH_ALEN);
    return counted(reason, XDP_PASS);
}

/* Looks up where the flow's packets leave, and keeps it in the flow. GO_ON, or what became of the packet. */
STAGE int F(find_member)(struct xdp_md *ctx, const PACKET *p, FLOW *f, __u32 overhead)
{
    struct way_out out;
    __u32 direct;
    int reason;

    if (!p || !f)
        return counted(DROP_INTERNAL, XDP_DROP);
    direct = f->way == WAY_DIRECT;
    reason = member_route(ctx, f->member, p->size + overhead, direct, &out);
    if (reason == ROUTED) {
        keep_hop(&f->hops[0], &out.hop);
        f->fresh[0] = p->now >> HOP_SHIFT;
        /* Not when it is delivered directly: the kernel would take the packet for one to this machine. */
        if (!direct && probe_due(&out.hop, p->now))
            return F(entrust)(ctx, p, f->member, PASS_PROBE);
        return GO_ON;
    }
    if (f->hops[0].port)
        f->hops[0].port = 0;
    if (reason == PASS_TOO_BIG)
        return F(answer_too_big)(ctx, p, out.mtu > overhead ? out.mtu - overhead : 0);
    if (reason >= DROP_SHUN)
        return counted(reason, XDP_DROP);
    /* Encapsulated, a packet for direct delivery is lost on most members; but it makes the kernel ask for the neighbour. */
    if (direct && reason != PASS_NO_NEIGHBOUR)
        return counted(DROP_NO_NEIGHBOUR, XDP_DROP);
    return F(entrust)(ctx, p, f->member, reason);
}

/* Sends a packet of a flow to its member, encapsulated or directly. The time to live of the packet inside is not touched:
 * client and virtual are as far apart as they look. */
INLINE int F(deliver)(struct xdp_md *ctx, const PACKET *p, FLOW *f, const struct member *m, struct hop hop)
{
    bool tunnelled = f->way == WAY_TUNNEL;
    __u32 overhead = !tunnelled ? 0 : m->family == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
    struct port *port;

    if (unlikely((__u16)((p->now >> HOP_SHIFT) - f->fresh[0]) > HOP_AGE(cfg.hz) || !hop.port || hop.flags ||
                 (tunnelled && !has_address(m->source)))) {
        int verdict = F(find_member)(ctx, p, f, overhead);

        if (verdict != GO_ON)
            return verdict;
        hop = kept_hop(&f->hops[0]);
    }
    port = port_at(hop.port);
    if (!port)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (unlikely(p->size + overhead > port->mtu))
        return F(answer_too_big)(ctx, p, port->mtu - overhead);
    if (tunnelled && !F(encapsulate)(ctx, p, m))
        return counted(DROP_INTERNAL, XDP_DROP);
    count(FORWARD_FLOW);
    return F(transmit)(ctx, &hop, port, false);
}
