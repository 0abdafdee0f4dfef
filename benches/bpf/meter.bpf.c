/* Runs a program on packets of many flows in a test run: each run writes the packet anew and tail-calls the program, whose
 * verdict is the run's. What this costs by itself is measured by calling `nothing`. */
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define INLINE static __always_inline

#define FRAME 96      /* bytes of a frame of either family */
#define FIRST_PORT 1024

enum order {
    ORDER_RANDOM,     /* a random flow each time */
    ORDER_NEXT,       /* one flow after the other */
    ORDER_HANDSHAKE,  /* for each flow: its first packet, the answer unless there are only two steps, a further packet */
    ORDER_REPLY,      /* a random flow's answer, as the handshake saw it */
};

/* What the packets are. Written by user space before a run; `random`, `next` and `step` go on by themselves. */
struct plan {
    __u8 frame[FRAME]; /* the packet, but for addresses' last words and the source port */
    __u64 random;
    __u32 order;
    __u32 flows;
    __u32 next;
    __u32 step, steps;
    __u32 source_mask, source_bits; /* sources are these many, ports go up after them */
    __u32 target_mask;
    __u32 record;
    __u32 spread; /* if not 0: destinations are drawn from these many /24 or /48 */
    __u8 first_flags, further_flags; /* TCP's */
    __u8 spare[6];
};
struct plan plan;

/* Answers' addresses and ports, by flow. */
struct tuple4 {
    __be32 src, dst;
    __be16 sport, dport;
};
struct tuple6 {
    struct in6_addr src, dst;
    __be16 sport, dport;
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct tuple4);
    __uint(max_entries, 1);
} replies4 SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct tuple6);
    __uint(max_entries, 1);
} replies6 SEC(".maps");

/* The program under test. */
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 1);
} under_test SEC(".maps");

INLINE __u32 next_random(void)
{
    __u64 x = plan.random;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    plan.random = x;
    return x >> 32;
}

INLINE int meter(struct xdp_md *ctx, bool six)
{
    long grown = (long)ctx->data_end - (long)ctx->data - FRAME;
    void *data, *end;
    __u32 number, step = 0;
    __u8 flags = plan.further_flags;
    struct tcphdr *tcp;

    /* Encapsulation is taken off again. */
    if (grown && bpf_xdp_adjust_head(ctx, grown))
        return XDP_ABORTED;
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + FRAME > end)
        return XDP_ABORTED;
    tcp = data + ETH_HLEN + (six ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));

    switch (plan.order) {
    case ORDER_NEXT:
        number = plan.next++;
        flags = plan.first_flags;
        break;
    case ORDER_HANDSHAKE:
        number = plan.next;
        step = plan.step++;
        if (plan.step >= plan.steps) {
            plan.step = 0;
            plan.next++;
        }
        if (!step)
            flags = plan.first_flags;
        break;
    default:
        number = ((__u64)next_random() * plan.flows) >> 32;
    }

    if (step == 1 && plan.steps == 3) {
        /* The answer to the packet as the program left it. */
        __be16 port = tcp->source;

        __builtin_memcpy(data, plan.frame, 2 * ETH_ALEN);
        tcp->source = tcp->dest;
        tcp->dest = port;
        ((__u8 *)tcp)[13] = 0x12;
        if (six) {
            struct ipv6hdr *ip = data + ETH_HLEN;
            struct in6_addr addr = ip->saddr;

            ip->saddr = ip->daddr;
            ip->daddr = addr;
            ip->hop_limit = 64;
            if (plan.record) {
                struct tuple6 tuple = {ip->saddr, ip->daddr, tcp->source, tcp->dest};

                bpf_map_update_elem(&replies6, &number, &tuple, BPF_ANY);
            }
        } else {
            struct iphdr *ip = data + ETH_HLEN;
            __be32 addr = ip->saddr;

            ip->saddr = ip->daddr;
            ip->daddr = addr;
            ip->ttl = 64;
            if (plan.record) {
                struct tuple4 tuple = {ip->saddr, ip->daddr, tcp->source, tcp->dest};

                bpf_map_update_elem(&replies4, &number, &tuple, BPF_ANY);
            }
        }
    } else {
        __u32 bytes = six ? 80 : 64;

#pragma clang loop unroll(full)
        for (__u32 i = 0; i < bytes; i += 8)
            *(__u64 *)(data + i) = *(__u64 *)(plan.frame + i);
        if (plan.order == ORDER_REPLY) {
            if (six) {
                struct tuple6 *tuple = bpf_map_lookup_elem(&replies6, &number);
                struct ipv6hdr *ip = data + ETH_HLEN;

                if (!tuple)
                    return XDP_ABORTED;
                ip->saddr = tuple->src;
                ip->daddr = tuple->dst;
                tcp->source = tuple->sport;
                tcp->dest = tuple->dport;
            } else {
                struct tuple4 *tuple = bpf_map_lookup_elem(&replies4, &number);
                struct iphdr *ip = data + ETH_HLEN;

                if (!tuple)
                    return XDP_ABORTED;
                ip->saddr = tuple->src;
                ip->daddr = tuple->dst;
                tcp->source = tuple->sport;
                tcp->dest = tuple->dport;
            }
        } else {
            __be32 source = bpf_htonl(number & plan.source_mask), target = bpf_htonl(number >> 4 & plan.target_mask);

            /* The template's last words have these bits clear. */
            if (six) {
                struct ipv6hdr *ip = data + ETH_HLEN;

                ip->saddr.in6_u.u6_addr32[3] |= source;
                ip->daddr.in6_u.u6_addr32[3] |= target;
            } else {
                struct iphdr *ip = data + ETH_HLEN;

                ip->saddr |= source;
                ip->daddr |= target;
            }
            if (plan.spread) {
                __u32 network = ((__u64)(number * 0x9e3779b1) * plan.spread) >> 32;

                if (six) {
                    struct ipv6hdr *ip = data + ETH_HLEN;

                    ip->daddr.in6_u.u6_addr32[0] |= bpf_htonl(network >> 16);
                    ip->daddr.in6_u.u6_addr32[1] = bpf_htonl(network << 16);
                } else {
                    struct iphdr *ip = data + ETH_HLEN;

                    ip->daddr = bpf_htonl(bpf_ntohl(ip->daddr) + (network << 8));
                }
            }
            tcp->source = bpf_htons(FIRST_PORT + (number >> (plan.source_bits & 31)));
        }
        ((__u8 *)tcp)[13] = flags;
    }
    bpf_tail_call(ctx, &under_test, 0);
    return XDP_ABORTED;
}

SEC("xdp.frags")
int meter4(struct xdp_md *ctx)
{
    return meter(ctx, false);
}

SEC("xdp.frags")
int meter6(struct xdp_md *ctx)
{
    return meter(ctx, true);
}

/* What a program must at least cost: nothing. */
SEC("xdp.frags")
int nothing(struct xdp_md *ctx)
{
    return XDP_DROP;
}

/* The same after it has made the packet longer, as encapsulation does; the meter then has to undo it. */
SEC("xdp.frags")
int longer(struct xdp_md *ctx)
{
    return bpf_xdp_adjust_head(ctx, -20) ? XDP_ABORTED : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
