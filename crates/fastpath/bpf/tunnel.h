/* Encapsulation towards members: IP in IP. Per family. */

INLINE int F(tunnel)(struct xdp_md *ctx, const PACKET *p, FLOW *f, const struct member *member)
{
    return counted(DROP_INTERNAL, XDP_DROP);
}
