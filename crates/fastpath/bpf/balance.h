/* The first packet for a virtual: choose a member, begin the flow. Per family. */

STAGE int F(balance)(struct xdp_md *ctx, PACKET *p, __u32 number)
{
    KEEP(ctx);
    KEEP(p);
    KEEP(number);
    return counted(DROP_NO_MEMBER, XDP_DROP);
}
