/* For members behind a balancer that encapsulates: takes the outer header off packets to this machine's tunnel addresses
 * (IPv4 or IPv6, around either) and passes up what was inside. All else is passed up as it is. */
#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define INLINE static __always_inline

#define IPV4_FRAGMENT 0x3fff /* more to come, or not at the beginning */
#define DESTINATION_OPTIONS 60
#define LONGEST_OPTIONS 64 /* bytes of destination options that are stepped over: Linux sends 8 (RFC 2473, 5.1) */

/* The two bits of explicit congestion notification (RFC 3168). */
#define NOT_ECT 0
#define ECT_1 1
#define ECT_0 2
#define CE 3
#define ECN_MASK 3

/* The counters' indexes: src/decap.rs has the same. */
enum counter {
    DECAPSULATED,
    PASSED,    /* not a tunnel's packet, or not to one of our addresses, or a fragment */
    MALFORMED, /* what is inside is cut short or no IP; dropped */
    CONGESTED, /* congestion was met, of which what is inside can't tell; dropped (RFC 6040, 4.2) */
    COUNTERS,
};

/* The addresses whose tunnels end here; IPv4 in the first word. */
struct address {
    __be32 w[4];
    __u32 family; /* 4 or 6 */
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct address);
    __type(value, __u32);
    __uint(max_entries, 1024);
} decap_addresses SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, COUNTERS);
} decap_counters SEC(".maps");

INLINE int counted(__u32 counter, int verdict)
{
    __u64 *n = bpf_map_lookup_elem(&decap_counters, &counter);

    if (n)
        ++*n;
    return verdict;
}

/* What becomes of the inner packet's congestion bits, or -1 if it has to be dropped (RFC 6040, figure 4). */
INLINE int congestion(__u8 outer, __u8 inner)
{
    outer &= ECN_MASK;
    inner &= ECN_MASK;
    if (outer == CE)
        return inner == NOT_ECT ? -1 : CE;
    return outer == ECT_1 && inner == ECT_0 ? ECT_1 : inner;
}

/* Takes `length` bytes off between the Ethernet header and the packet of protocol `inner`. */
INLINE int strip(struct xdp_md *ctx, __u32 length, __u8 inner, __u8 outer_tos)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr eth;
    int ecn;

    if (data + ETH_HLEN > end)
        return counted(MALFORMED, XDP_DROP);
    __builtin_memcpy(&eth, data, ETH_HLEN);
    eth.h_proto = inner == IPPROTO_IPIP ? bpf_htons(ETH_P_IP) : bpf_htons(ETH_P_IPV6);
    if (bpf_xdp_adjust_head(ctx, length))
        return counted(MALFORMED, XDP_DROP);
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (inner == IPPROTO_IPIP) {
        struct iphdr *ip = data + ETH_HLEN;

        if ((void *)(ip + 1) > end || ip->version != 4)
            return counted(MALFORMED, XDP_DROP);
        ecn = congestion(outer_tos, ip->tos);
        if (ecn < 0)
            return counted(CONGESTED, XDP_DROP);
        if (ecn != (ip->tos & ECN_MASK)) {
            /* RFC 1624, equation 3, of the word that has the bits in its lower byte. */
            __u32 sum = (__u16)~bpf_ntohs(ip->check) + (__u16)~ip->tos;

            ip->tos = (ip->tos & ~ECN_MASK) | ecn;
            sum += ip->tos;
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            ip->check = bpf_htons(~sum);
        }
    } else {
        struct ipv6hdr *ip = data + ETH_HLEN;

        if ((void *)(ip + 1) > end || ip->version != 6)
            return counted(MALFORMED, XDP_DROP);
        ecn = congestion(outer_tos, ip->flow_lbl[0] >> 4);
        if (ecn < 0)
            return counted(CONGESTED, XDP_DROP);
        ip->flow_lbl[0] = (ip->flow_lbl[0] & ~(ECN_MASK << 4)) | ecn << 4;
    }
    __builtin_memcpy(data, &eth, ETH_HLEN);
    return counted(DECAPSULATED, XDP_PASS);
}

INLINE bool is_tunnel(__u8 proto)
{
    return proto == IPPROTO_IPIP || proto == IPPROTO_IPV6;
}

INLINE int outer4(struct xdp_md *ctx, void *data, void *end)
{
    struct iphdr *ip = data + ETH_HLEN;
    struct address key = {.family = 4};

    if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5 || !is_tunnel(ip->protocol))
        return counted(PASSED, XDP_PASS);
    key.w[0] = ip->daddr;
    /* The kernel puts fragments together. */
    if (ip->frag_off & bpf_htons(IPV4_FRAGMENT) || !bpf_map_lookup_elem(&decap_addresses, &key))
        return counted(PASSED, XDP_PASS);
    return strip(ctx, ip->ihl * 4, ip->protocol, ip->tos);
}

INLINE int outer6(struct xdp_md *ctx, void *data, void *end)
{
    struct ipv6hdr *ip = data + ETH_HLEN;
    struct address key = {.family = 6};
    __u32 length = sizeof(*ip);
    __u8 next;

    if ((void *)(ip + 1) > end || ip->version != 6)
        return counted(PASSED, XDP_PASS);
    next = ip->nexthdr;
    if (next == DESTINATION_OPTIONS) {
        __u8 *options = (void *)(ip + 1);

        if ((void *)(options + 2) > end)
            return counted(PASSED, XDP_PASS);
        next = options[0];
        length += (options[1] + 1) * 8;
        if (length > sizeof(*ip) + LONGEST_OPTIONS)
            return counted(PASSED, XDP_PASS);
    }
    if (!is_tunnel(next))
        return counted(PASSED, XDP_PASS);
    __builtin_memcpy(key.w, &ip->daddr, sizeof(key.w));
    if (!bpf_map_lookup_elem(&decap_addresses, &key))
        return counted(PASSED, XDP_PASS);
    return strip(ctx, length, next, ip->priority << 4 | ip->flow_lbl[0] >> 4);
}

SEC("xdp.frags")
int headgate_decap(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;

    if ((void *)(eth + 1) > end)
        return counted(PASSED, XDP_PASS);
    if (eth->h_proto == bpf_htons(ETH_P_IP))
        return outer4(ctx, data, end);
    if (eth->h_proto == bpf_htons(ETH_P_IPV6))
        return outer6(ctx, data, end);
    return counted(PASSED, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
