/* Source addresses and ports of translated flows. What counts is the tuple of a flow's replies: it must be no other flow's.
 * Ports are tried from a place that a hash gives, a bounded number of them; whoever enters the reply's tuple has the port.
 * Also how many flows a user may have. Per family. */
#ifndef ALLOCATE_CONSTANTS
#define ALLOCATE_CONSTANTS
#define PROBES 128                  /* ports, or addresses of a pool, that are tried for a flow */
#define FIRST_PORT 1024             /* where a source has no ranges: from here to the last there is */
#define NO_HALF 0xffffffff          /* a half-open flow's slot that is none */
#define REFUSED_SWEEP 32            /* buckets and slots looked over when a user is at its limit */

/* How many ports the ith range has: none when it is not used. */
INLINE __u32 range_size(const struct source *source, int i)
{
    return source->ports[i].last ? source->ports[i].last - source->ports[i].first + 1 : 0;
}

/* How many ports a source has. */
STAGE int count_ports(const struct source *source)
{
    __u32 n = 0;

    if (!source)
        return 0;

#pragma clang loop unroll(full)
    for (int i = 0; i < PORT_RANGES; i++)
        n += range_size(source, i);
    return n ? n : 65536 - FIRST_PORT;
}

/* The nth of a source's ports, network order. */
STAGE int nth_port(const struct source *source, __u32 n)
{
    if (!source)
        return 0;
#pragma clang loop unroll(full)
    for (int i = 0; i < PORT_RANGES; i++) {
        __u32 size = range_size(source, i);

        if (n < size)
            return bpf_htons(source->ports[i].first + n);
        n -= size;
    }
    return bpf_htons(FIRST_PORT + n);
}

/* Whether a port, host order, is one of them. */
STAGE int has_port(const struct source *source, __u32 port)
{
    if (!source)
        return 0;
#pragma clang loop unroll(full)
    for (int i = 0; i < PORT_RANGES; i++)
        if (range_size(source, i) && source->ports[i].first <= port && port <= source->ports[i].last)
            return true;
    return !source->ports[0].last && port >= FIRST_PORT;
}

/* A number below `n` for the kth try: anywhere each time. */
INLINE __u32 scattered(__u32 spread, __u32 k, __u32 n)
{
    spread += k * 0x9e3779b9;
    spread ^= spread >> 16;
    spread *= 0x85ebca6b;
    spread ^= spread >> 13;
    return scale(spread * 0xc2b2ae35, n);
}
#endif

/* What a flow's source address and port are chosen from, and how many have been tried. */
struct F(pick)
{
    struct source source;
    ADDR own;        /* where the source is no pool */
    __u32 addresses; /* how many there are to choose from */
    __u32 ports;     /* and ports; 0: the protocol has none */
    __u32 first;     /* which of the pool's addresses the client has */
    __u32 spread;    /* hash of the flow's tuple */
    __u32 turn;      /* tries with one address */
    __u32 tried;
    struct F(tuple) asked; /* for which the kernel is asked for an address */
    PACKET reply;          /* by which it is seen whether a port is free */
};
PER_CPU(F(picks), struct F(pick), 1);

INLINE struct F(pick) * F(pick)(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&F(picks), &zero);
}

/* Whether the replies of a flow would find another flow, half-open or in the table. `but` is the half-open slot of the flow
 * itself, if it has one. The half-open flows come first: one that moves to the table is in both for a moment, in none never. */
STAGE int F(reply_taken)(const FLOW *flow, __u32 now, __u32 but)
{
    struct F(pick) *pick = F(pick)();
    PACKET *reply = &pick->reply;
    struct bucket *bucket;
    __u64 hash;
    __u32 at, tag;

    if (!flow || !pick)
        return 1;
    reply->src = flow->ndst;
    reply->dst = flow->nsrc;
    reply->sport = flow->ndport;
    reply->dport = flow->nsport;
    reply->proto = flow->proto;
    reply->now = now;
    hash = F(hash)(&reply->src, &reply->dst, reply->sport, reply->dport, reply->proto);
    at = F(half_bucket)(hash);
    tag = F(half_tag)(hash);
    bucket = bpf_map_lookup_elem(&F(half_index), &at);
    if (!bucket)
        return 1;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < WAYS; i++) {
        __u64 entry = READ_ONCE(bucket->entry[i]);
        FLOW *f;

        if (entry >> 32 != tag || (entry & HALF_SLOT) == but)
            continue;
        f = F(flow_at)(&F(half_flows), entry & HALF_SLOT);
        if (f && F(direction)(f, reply) >= 0 && !F(expired)(f, now))
            return 1;
    }
    return F(taken)(reply, hash);
}

/* One flow more for the user. 0, or why it can't have it. */
STAGE int F(count_user)(FLOW *draft, __u32 limit)
{
    struct addr6 user;
    __u32 *flows, one = 1;

    if (!draft)
        return DROP_INTERNAL;
    F(widen)(user.w, &draft->src);
    flows = bpf_map_lookup_elem(&users, &user);
    if (flows) {
        /* Below 0 for a moment, should it be forgotten once too often. */
        if ((__s32)__sync_fetch_and_add(flows, 1) < (__s32)limit)
            goto counts;
        __sync_fetch_and_add(flows, -1);
        /* Flows that have expired count until they are found. */
        F(half_sweep)(draft->created, REFUSED_SWEEP);
        F(sweep)(draft->created, REFUSED_SWEEP);
        return DROP_USER_LIMIT;
    }
    if (bpf_map_update_elem(&users, &user, &one, BPF_NOEXIST)) {
        flows = bpf_map_lookup_elem(&users, &user);
        if (!flows)
            return DROP_TABLE_FULL;
        __sync_fetch_and_add(flows, 1);
    }
counts:
    draft->flags |= FLOW_COUNTED;
    return 0;
}

/* Takes back what was counted for a flow that comes to nothing. */
INLINE void F(withdraw)(FLOW *draft)
{
    if (draft->flags & FLOW_COUNTED)
        F(forget_user)(draft);
    draft->flags &= ~FLOW_COUNTED;
}

/* Prepares the choice: the client has the same of the pool's addresses each time. */
INLINE void F(prepare)(struct F(pick) * pick, const FLOW *draft, const struct source *source)
{
    bool ports = draft->proto == IPPROTO_TCP || draft->proto == IPPROTO_UDP || draft->state == STATE_ICMP;
    bool pool = source && source->kind == SNAT_POOL;

    if (source)
        pick->source = *source;
    else
        __builtin_memset(&pick->source, 0, sizeof(pick->source));
    pick->addresses = pool ? pick->source.count : 1;
    pick->first = pool ? scale(F(mix)(&draft->src, 0) >> 32, pick->addresses) : 0;
    pick->ports = ports ? count_ports(&pick->source) : 0;
    pick->spread = F(hash)(&draft->src, &draft->dst, draft->sport, draft->dport, draft->proto) >> 32;
    pick->turn = !ports ? 1 : pick->addresses > 2 ? PROBES / 4 : PROBES / (pick->addresses ? pick->addresses : 1);
    pick->tried = 0;
}

/* Puts the next address and port to be tried into the draft. False when there are no more. */
STAGE int F(candidate)(FLOW *draft)
{
    struct F(pick) *pick = F(pick)();
    __u32 n, address, k;

    if (!draft || !pick)
        return false;
    n = pick->tried++;
    if (n >= PROBES || !pick->turn)
        return false;
    address = n / pick->turn;
    k = n % pick->turn;
    if (address >= pick->addresses)
        return false;
    if (pick->source.kind == SNAT_POOL) {
        __u32 at = pick->first + address;
        ADDR *chosen;

        at = pick->source.first + (at < pick->addresses ? at : at - pick->addresses);
        chosen = bpf_map_lookup_elem(&F(nat_addrs), &at);
        if (!chosen)
            return false;
        draft->nsrc = *chosen;
    } else {
        draft->nsrc = pick->own;
    }
    if (!pick->ports)
        return true;
    /* The client keeps its port where it can. Few ports are gone through in turn, so that none is missed. */
    if (!n && (has_port(&pick->source, bpf_ntohs(draft->sport)) || pick->source.kind == SNAT_NONE))
        draft->nsport = draft->sport;
    else if (pick->ports < pick->turn)
        draft->nsport = nth_port(&pick->source, (scale(pick->spread, pick->ports) + k) % pick->ports);
    else
        draft->nsport = nth_port(&pick->source, scattered(pick->spread, k + address, pick->ports));
    return true;
}

/* Chooses the next source whose replies would find no other flow. 0, or the reason to drop. */
STAGE int F(next_source)(FLOW *draft)
{
    struct F(pick) *pick = F(pick)();

    if (!draft || !pick)
        return DROP_INTERNAL;
#pragma clang loop unroll(disable)
    for (int i = 0; i < PROBES; i++) {
        if (!F(candidate)(draft))
            break;
        if (pick->tried > 1)
            count(NAT_PROBES);
        if (!F(reply_taken)(draft, draft->created, NO_HALF))
            return 0;
    }
    return DROP_NO_PORT;
}

/* Gives a drafted flow, whose translated destination is set, a source address and port, and counts it against its user's
 * limit. 0, or the reason to drop it. What it gives is the flow's once that is entered, which must be next. */
STAGE int F(allocate)(struct xdp_md *ctx, const PACKET *p, FLOW *draft, const struct source *source)
{
    struct F(pick) *pick = F(pick)();
    int reason;

    if (!p || !draft || !source || !pick)
        return DROP_INTERNAL;
    F(prepare)(pick, draft, source);
    if (source->kind == SNAT_AUTOMAP) {
        pick->asked = (struct F(tuple)){draft->src, draft->ndst, draft->sport, draft->ndport};
        reason = F(own_address)(ctx, p, &pick->asked, &pick->own);
        if (reason)
            return reason;
    }
    if (pick->source.per_user) {
        reason = F(count_user)(draft, pick->source.per_user);
        if (reason)
            return reason;
    }
    reason = F(next_source)(draft);
    if (reason)
        F(withdraw)(draft);
    return reason;
}
