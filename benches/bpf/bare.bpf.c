/* The least that a program can do: drop, redirect, forward by the kernel's routes. What forwards more is measured against these.
 * And the far end: it counts and drops, or sends everything back, so that flows are answered. */
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define INLINE static __always_inline
#define AF_INET 2
#define AF_INET6 10

/* Where packets leave: its device, and the Ethernet header they leave with. */
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 1);
} out_device SEC(".maps");
struct header {
    __u8 to[6], from[6];
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct header);
    __uint(max_entries, 1);
} out_header SEC(".maps");

/* Packets that were dropped, by core. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
    __uint(max_entries, 1);
} dropped SEC(".maps");

SEC("xdp")
int drop(struct xdp_md *ctx)
{
    __u32 zero = 0;
    __u64 *n = bpf_map_lookup_elem(&dropped, &zero);

    if (n)
        ++*n;
    return XDP_DROP;
}

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u32 zero = 0;
    struct header *header = bpf_map_lookup_elem(&out_header, &zero);

    if (!header || data + ETH_HLEN > end)
        return XDP_DROP;
    __builtin_memcpy(data, header, sizeof(*header));
    return bpf_redirect_map(&out_device, 0, XDP_DROP);
}

/* As samples of the kernel do it: every packet asks for its route. */
SEC("xdp")
int forward(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct bpf_fib_lookup fib = {};
    struct ethhdr *eth = data;

    if ((void *)(eth + 1) > end)
        return XDP_PASS;
    fib.ifindex = ctx->ingress_ifindex;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = (void *)(eth + 1);
        __u32 check;

        if ((void *)(ip + 1) > end || ip->ttl <= 1)
            return XDP_PASS;
        fib.family = AF_INET;
        fib.tos = ip->tos;
        fib.l4_protocol = ip->protocol;
        fib.tot_len = bpf_ntohs(ip->tot_len);
        fib.ipv4_src = ip->saddr;
        fib.ipv4_dst = ip->daddr;
        if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
            return XDP_PASS;
        check = ip->check + bpf_htons(0x0100);
        ip->check = check + (check >= 0xffff);
        ip->ttl--;
    } else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = (void *)(eth + 1);

        if ((void *)(ip + 1) > end || ip->hop_limit <= 1)
            return XDP_PASS;
        fib.family = AF_INET6;
        fib.l4_protocol = ip->nexthdr;
        fib.tot_len = bpf_ntohs(ip->payload_len);
        __builtin_memcpy(fib.ipv6_src, &ip->saddr, sizeof(fib.ipv6_src));
        __builtin_memcpy(fib.ipv6_dst, &ip->daddr, sizeof(fib.ipv6_dst));
        if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
            return XDP_PASS;
        ip->hop_limit--;
    } else {
        return XDP_PASS;
    }
    __builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
    __builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
    return bpf_redirect_map(&out_device, 0, XDP_DROP);
}

/* Sends a TCP segment or UDP datagram back to where it came from; checksums stay right. */
SEC("xdp")
int reflect(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    __be16 *ports, port;
    __u8 mac[ETH_ALEN];

    if ((void *)(eth + 1) > end)
        return XDP_PASS;
    if (eth->h_proto == bpf_htons(ETH_P_IP)) {
        struct iphdr *ip = (void *)(eth + 1);
        __be32 addr;

        if ((void *)(ip + 1) > end || (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP))
            return XDP_PASS;
        addr = ip->saddr;
        ip->saddr = ip->daddr;
        ip->daddr = addr;
        ports = (void *)(ip + 1);
    } else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
        struct ipv6hdr *ip = (void *)(eth + 1);
        struct in6_addr addr;

        if ((void *)(ip + 1) > end || (ip->nexthdr != IPPROTO_UDP && ip->nexthdr != IPPROTO_TCP))
            return XDP_PASS;
        addr = ip->saddr;
        ip->saddr = ip->daddr;
        ip->daddr = addr;
        ports = (void *)(ip + 1);
    } else {
        return XDP_PASS;
    }
    if ((void *)(ports + 2) > end)
        return XDP_PASS;
    port = ports[0];
    ports[0] = ports[1];
    ports[1] = port;
    __builtin_memcpy(mac, eth->h_source, ETH_ALEN);
    __builtin_memcpy(eth->h_source, eth->h_dest, ETH_ALEN);
    __builtin_memcpy(eth->h_dest, mac, ETH_ALEN);
    return XDP_TX;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
