/* Answers to packets that can't be sent on and are not the kernel's to answer, since it would not know them as they are:
 * ICMP errors as a router sends them (RFC 1812 section 4.3, RFC 4443). Per family. */
#ifndef ANSWER_CONSTANTS
#define ANSWER_CONSTANTS
#define ICMP_HEADER 8
#define QUOTE_CHUNK 256 /* bytes that are summed up at once */
#define QUOTE_ROOM (5 * QUOTE_CHUNK)
#define ANSWERS_A_SECOND 1000 /* a CPU: RFC 4443 section 2.4 (f) demands a limit */
#define ANSWER_TTL 64
#define ANSWER_TOS 0xc0 /* internetwork control: RFC 1812 section 4.3.2.5 */
#define DONT_FRAGMENT 0x4000

/* What an answer quotes, where it is summed up. */
struct quote {
    __u8 bytes[QUOTE_ROOM];
};
PER_CPU(quotes, struct quote, 1);

/* How many answers this CPU has sent since when. */
struct answers {
    __u32 since, count;
};
PER_CPU(answers, struct answers, 1);

INLINE bool may_answer(__u32 now)
{
    __u32 zero = 0;
    struct answers *sent = bpf_map_lookup_elem(&answers, &zero);

    if (!sent)
        return false;
    if (now - sent->since >= cfg.hz) {
        sent->since = now;
        sent->count = 0;
    }
    return sent->count++ < ANSWERS_A_SECOND;
}

/* The sum of the packet's first bytes after the Ethernet header, or -1. */
STAGE int quote_sum(struct xdp_md *ctx, __u32 bytes)
{
    __u32 zero = 0;
    struct quote *quote = bpf_map_lookup_elem(&quotes, &zero);
    __s64 sum = 0;

    if (!quote || !bytes || bytes > QUOTE_ROOM)
        return -1;
#pragma clang loop unroll(disable)
    for (int i = 0; i < QUOTE_ROOM / 8; i++)
        WRITE_ONCE(((__u64 *)quote->bytes)[i], 0);
    if (bpf_xdp_load_bytes(ctx, ETH_HLEN, quote->bytes, bytes))
        return -1;
    for (int i = 0; i < QUOTE_ROOM; i += QUOTE_CHUNK) {
        sum = bpf_csum_diff(NULL, 0, (__be32 *)(quote->bytes + i), QUOTE_CHUNK, sum);
        if (sum < 0)
            return -1;
    }
    return fold(sum);
}
#endif

/* As much of a packet as an answer may quote: the whole must fit 576 bytes, and 1280 of IPv6. */
#if FAMILY == 4
#define QUOTE_BYTES (576 - sizeof(struct iphdr) - ICMP_HEADER)
#define TIME_EXCEEDED (ICMP_TIME_EXCEEDED << 8)
#define TOO_BIG (ICMP_DEST_UNREACH << 8 | ICMP_FRAG_NEEDED)
#else
#define QUOTE_BYTES (1280 - sizeof(struct ipv6hdr) - ICMP_HEADER)
#define TIME_EXCEEDED (ICMPV6_TIME_EXCEED << 8)
#define TOO_BIG (ICMPV6_PKT_TOOBIG << 8)
#endif

/* Whether the packet's sender may be sent an error at all. */
INLINE bool F(answerable)(struct xdp_md *ctx, const PACKET *p)
{
    struct ethhdr *eth = (void *)(long)ctx->data;

    if (p->kind & (KIND_LATER | KIND_ERROR | KIND_CONTROL))
        return false;
    if ((void *)(eth + 1) > (void *)(long)ctx->data_end || eth->h_dest[0] & 1)
        return false;
#if FAMILY == 4
    __u8 first = bpf_ntohl(p->src.w[0]) >> 24;

    return first && first != 127 && first < 224;
#else
    return (p->src.w[0] | p->src.w[1] | p->src.w[2] | p->src.w[3]) && bpf_ntohl(p->src.w[0]) >> 24 != 0xff;
#endif
}

/* Writes the headers of an answer of `own` to the packet's source before the `quoted` bytes, whose sum is `sum`. */
INLINE bool F(write_answer)(struct xdp_md *ctx, const PACKET *p, const ADDR *own, __u16 quoted, __u32 sum,
                            __u32 type_and_code, __be32 word)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data, *old = data + L3_BYTES + ICMP_HEADER, was;
    __be16 kind = bpf_htons(type_and_code);
    __u16 *icmp = data + ETH_HLEN + L3_BYTES;
    __u64 check = (__u64)sum + kind + word;

    if ((void *)(old + 1) > end || (void *)icmp + ICMP_HEADER > end)
        return false;
    was = *old;
    __builtin_memcpy(eth->h_dest, was.h_source, ETH_ALEN);
    __builtin_memcpy(eth->h_source, was.h_dest, ETH_ALEN);
    eth->h_proto = ETHERTYPE;
#if FAMILY == 4
    struct iphdr *ip = data + ETH_HLEN;

    ip->version = 4;
    ip->ihl = 5;
    ip->tos = ANSWER_TOS;
    ip->tot_len = bpf_htons(sizeof(*ip) + ICMP_HEADER + quoted);
    ip->id = 0;
    ip->frag_off = bpf_htons(DONT_FRAGMENT);
    ip->ttl = ANSWER_TTL;
    ip->protocol = IPPROTO_ICMP;
    ip->saddr = own->w[0];
    ip->daddr = p->src.w[0];
    ip->check = ~fold((__u64)bpf_htons(0x4500 | ANSWER_TOS) + ip->tot_len + bpf_htons(DONT_FRAGMENT) +
                      bpf_htons(ANSWER_TTL << 8 | IPPROTO_ICMP) + ip->saddr + ip->daddr);
#else
    struct ipv6hdr *ip = data + ETH_HLEN;

    *(__be32 *)ip = bpf_htonl(6u << 28);
    ip->payload_len = bpf_htons(ICMP_HEADER + quoted);
    ip->nexthdr = IPPROTO_ICMPV6;
    ip->hop_limit = ANSWER_TTL;
    __builtin_memcpy(&ip->saddr, own, sizeof(ip->saddr));
    __builtin_memcpy(&ip->daddr, &p->src, sizeof(ip->daddr));
    for (int i = 0; i < WORDS; i++)
        check += (__u64)own->w[i] + p->src.w[i];
    check += ip->payload_len + bpf_htons(IPPROTO_ICMPV6);
#endif
    icmp[0] = kind;
    icmp[1] = ~fold(check);
    *(__be32 *)(icmp + 2) = word;
    return true;
}

/* Turns the packet into an ICMP error about itself and sends it back. GO_ON if that may not be. */
STAGE int F(answer)(struct xdp_md *ctx, const PACKET *p, __u32 type_and_code, __be32 word)
{
    struct F(work) *work = F(work)();
    ADDR own = {};
    __u32 quoted;
    int sum;

    if (!p || !work || !F(answerable)(ctx, p) || !may_answer(p->now))
        return GO_ON;
    work->leaving = (struct F(tuple)){.src = p->dst, .dst = p->src};
    if (F(own_address)(ctx, p, &work->leaving, &own))
        own = p->dst;
    quoted = p->size < QUOTE_BYTES ? p->size : QUOTE_BYTES;
    sum = quote_sum(ctx, quoted);
    if (sum < 0 || bpf_xdp_adjust_tail(ctx, (int)(ETH_HLEN + quoted) - (int)bpf_xdp_get_buff_len(ctx)) ||
        bpf_xdp_adjust_head(ctx, -(int)(L3_BYTES + ICMP_HEADER)) ||
        !F(write_answer)(ctx, p, &own, quoted, sum, type_and_code, word))
        return GO_ON;
    return counted(REPLY_ICMP, XDP_TX);
}

/* Tells the sender that the packet has taken too many hops. */
STAGE int F(answer_ttl)(struct xdp_md *ctx, const PACKET *p)
{
    int verdict;

    if (!p)
        return counted(DROP_INTERNAL, XDP_DROP);
    verdict = F(answer)(ctx, p, TIME_EXCEEDED, 0);
    return verdict == GO_ON ? counted(DROP_TTL, XDP_DROP) : verdict;
}

/* Whether routers may fragment the packet. */
INLINE bool F(may_fragment)(struct xdp_md *ctx)
{
#if FAMILY == 4
    struct iphdr *ip = (void *)(long)ctx->data + ETH_HLEN;

    return (void *)(ip + 1) <= (void *)(long)ctx->data_end && !(ip->frag_off & bpf_htons(DONT_FRAGMENT));
#else
    return false;
#endif
}

/* The MTU of the route, for a packet that is too big for it; 0 if it can't be told. */
STAGE int F(path_mtu)(struct xdp_md *ctx, const PACKET *p, const struct F(tuple) * t)
{
    struct bpf_fib_lookup fib = {};

    if (!p || !t)
        return 0;
    F(question)(&fib, ctx, p, t);
    return bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) == BPF_FIB_LKUP_RET_FRAG_NEEDED ? fib.mtu_result : 0;
}

/* Tells the sender how large its packets may be. */
STAGE int F(answer_too_big)(struct xdp_md *ctx, const PACKET *p, __u32 mtu)
{
    int verdict = GO_ON;

    if (!p)
        return counted(DROP_INTERNAL, XDP_DROP);
    if (F(may_fragment)(ctx))
        return counted(DROP_NEEDS_FRAGMENTING, XDP_DROP);
    if (mtu)
        verdict = F(answer)(ctx, p, TOO_BIG, bpf_htonl(mtu));
    return verdict == GO_ON ? counted(DROP_TOO_BIG, XDP_DROP) : verdict;
}

#undef QUOTE_BYTES
#undef TIME_EXCEEDED
#undef TOO_BIG
