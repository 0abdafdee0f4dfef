/* Headgate's fast path: the program that each interface runs on every packet it receives.
 *
 * Parse, shun list, connection table; what is of a known flow leaves from there. The first packet of a flow goes on to the
 * half-open flows, virtuals, source NAT and the route. What is for this machine is passed up. */
#include "common.h"

#include "maps.h"
#include "checksum.h"
#include "tcp.h"

/* What no ethertype is: lengths of IEEE 802.3 are below 1536. */
#define CUT_SHORT 0

INLINE __be16 ethertype(struct xdp_md *ctx)
{
    struct ethhdr *eth = (void *)(long)ctx->data;

    return (void *)(eth + 1) <= (void *)(long)ctx->data_end ? eth->h_proto : CUT_SHORT;
}

#define FAMILY 4
#include "path.h"
#undef FAMILY
#define FAMILY 6
#include "path.h"

SEC("xdp.frags")
int headgate(struct xdp_md *ctx)
{
    switch (ethertype(ctx)) {
    case bpf_htons(ETH_P_IP):
        return path4(ctx);
    case bpf_htons(ETH_P_IPV6):
        return path6(ctx);
    case CUT_SHORT:
        return counted(DROP_MALFORMED, XDP_DROP);
    }
    return counted(PASS_NOT_IP, XDP_PASS);
}

SEC("xdp.frags")
int headgate_new4(struct xdp_md *ctx)
{
    return new4(ctx);
}

SEC("xdp.frags")
int headgate_new6(struct xdp_md *ctx)
{
    return new6(ctx);
}

/* Where an earlier instance goes on when it has no flow for a packet. */
SEC("xdp.frags")
int headgate_resume(struct xdp_md *ctx)
{
    return ethertype(ctx) == bpf_htons(ETH_P_IP) ? resume4(ctx) : resume6(ctx);
}

/* For user space alone. */
SEC("xdp")
int headgate_import4(struct xdp_md *ctx)
{
    return import4(ctx);
}

SEC("xdp")
int headgate_import6(struct xdp_md *ctx)
{
    return import6(ctx);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
