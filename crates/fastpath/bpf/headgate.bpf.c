/* Headgate's fast path: the program that each interface runs on every packet it receives.
 *
 * Parse, shun list, connection table; what is of a known flow leaves from there. The first packet of a flow goes on to the
 * half-open flows, virtuals, source NAT and the route. What is for this machine is passed up. */
#include "common.h"

#include "maps.h"
#include "checksum.h"
#include "tcp.h"

#define FAMILY 4
#include "path.h"
#undef FAMILY
#define FAMILY 6
#include "path.h"

/* Either what an interface runs, or, when `resumed`, what goes on once an earlier instance had no flow for the packet. */
INLINE int run(struct xdp_md *ctx, bool resumed)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;

    if (unlikely((void *)(eth + 1) > end))
        return counted(DROP_MALFORMED, XDP_DROP);
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return path4(ctx, resumed);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return path6(ctx, resumed);
    return counted(PASS_NOT_IP, XDP_PASS);
}

SEC("xdp.frags")
int headgate(struct xdp_md *ctx)
{
    return run(ctx, false);
}

SEC("xdp.frags")
int headgate_resume(struct xdp_md *ctx)
{
    return run(ctx, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
