/* Answers to packets of translated flows that can't be sent on: ICMP errors as a router sends them. Per family. */

STAGE int F(answer_ttl)(struct xdp_md *ctx, const PACKET *p)
{
    KEEP(ctx);
    KEEP(p);
    return counted(DROP_TTL, XDP_DROP);
}

STAGE int F(answer_too_big)(struct xdp_md *ctx, const PACKET *p, __u32 mtu)
{
    KEEP(ctx);
    KEEP(p);
    KEEP(mtu);
    return counted(DROP_INTERNAL, XDP_DROP);
}
