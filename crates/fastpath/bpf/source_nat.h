/* Source NAT: rules, and the allocation of ports. Per family. */

/* The first rule that holds for a packet that would leave by `out`, counted from 1; 0 if none does. */
INLINE __u32 F(nat_rule)(const PACKET *p, __u32 out)
{
    return 0;
}

STAGE int F(source_nat)(struct xdp_md *ctx, PACKET *p, __u32 rule, __u32 out)
{
    KEEP(ctx);
    KEEP(p);
    KEEP(out);
    KEEP(rule);
    return counted(DROP_INTERNAL, XDP_DROP);
}
