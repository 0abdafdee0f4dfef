/* ICMP errors that belong to flows. Per family. */

/* Sends an error to whom it concerns, rewritten as its flow says. GO_ON if it belongs to no flow. */
STAGE int F(icmp_error)(struct xdp_md *ctx, PACKET *p)
{
    KEEP(ctx);
    KEEP(p);
    return GO_ON;
}
