/* Our own addresses, as the kernel would choose them. Per family. */
#ifndef ADDRESS_CONSTANTS
#define ADDRESS_CONSTANTS
#define LOOKUP_SKIP_NEIGH (1u << 2) /* of bpf_fib_lookup */
/* The look-up tells by which address of ours the kernel would send. Since 6.7; before, it is an error. */
#define LOOKUP_SRC (1u << 4)
#endif

/* The address that the kernel would send from along the route of a packet with the tuple. 0 or DROP_NO_ADDRESS. */
STAGE int F(own_address)(struct xdp_md *ctx, const PACKET *p, const struct F(tuple) * t, ADDR *address)
{
    struct bpf_fib_lookup fib = {};

    if (!p || !t || !address)
        return DROP_INTERNAL;
    fib.family = AF;
    fib.l4_protocol = p->proto;
    fib.sport = t->sport;
    fib.dport = t->dport;
    fib.ifindex = ctx->ingress_ifindex;
#if FAMILY == 4
    fib.tos = p->tos;
    fib.ipv4_src = t->src.w[0];
    fib.ipv4_dst = t->dst.w[0];
    if (bpf_fib_lookup(ctx, &fib, sizeof(fib), LOOKUP_SRC | LOOKUP_SKIP_NEIGH) != BPF_FIB_LKUP_RET_SUCCESS)
        return DROP_NO_ADDRESS;
    address->w[0] = fib.ipv4_src;
    return fib.ipv4_src ? 0 : DROP_NO_ADDRESS;
#else
    fib.flowinfo = bpf_htonl(p->tos << 20);
    __builtin_memcpy(fib.ipv6_src, &t->src, sizeof(fib.ipv6_src));
    __builtin_memcpy(fib.ipv6_dst, &t->dst, sizeof(fib.ipv6_dst));
    if (bpf_fib_lookup(ctx, &fib, sizeof(fib), LOOKUP_SRC | LOOKUP_SKIP_NEIGH) != BPF_FIB_LKUP_RET_SUCCESS)
        return DROP_NO_ADDRESS;
    /* One of the link is no source for what comes from elsewhere. */
    if ((fib.ipv6_src[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000))
        return DROP_NO_ADDRESS;
    __builtin_memcpy(address, fib.ipv6_src, sizeof(*address));
    return fib.ipv6_src[0] | fib.ipv6_src[1] | fib.ipv6_src[2] | fib.ipv6_src[3] ? 0 : DROP_NO_ADDRESS;
#endif
}
