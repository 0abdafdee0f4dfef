/* What the generator's programs share: headers of the protocols, and helpers that stand in no header of the kernel. */
#ifndef TRAFFIC_HEADERS_H
#define TRAFFIC_HEADERS_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#define PROTOCOL_ICMP 1
#define PROTOCOL_IPIP 4
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_IPV6 41
#define PROTOCOL_ICMP6 58

#define TCP_FIN 1
#define TCP_SYN 2
#define TCP_RST 4
#define TCP_PSH 8
#define TCP_ACK 16

#define ETHERNET 14
#define IP4 20
#define IP6 40

struct ip4 {
    __u8 version_length;
    __u8 tos;
    __be16 total;
    __be16 id;
    __be16 fragment;
    __u8 ttl;
    __u8 protocol;
    __u16 check;
    __be32 source;
    __be32 destination;
};

struct ip6 {
    __be32 version_class_label;
    __be16 payload;
    __u8 next;
    __u8 hops;
    __be32 source[4];
    __be32 destination[4];
};

struct tcp {
    __be16 source;
    __be16 destination;
    __be32 seq;
    __be32 ack;
    __u8 offset; /* of the data, in words, in the high four bits */
    __u8 flags;
    __be16 window;
    __u16 check;
    __be16 urgent;
};

/* Options of our SYN and SYN-ACK: MSS 1460, SACK permitted, window scale 7. They are also what a reply of the kernel
 * mirrors, so that its SYN-ACK leaves room for a request to grow into. */
#define SYN_OPTIONS 12
static const __u8 syn_options[SYN_OPTIONS] = {2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7};

/* The ones' complement sum of a word, as its two halves in the machine's order: the order of bytes does not matter to
 * the sum as long as it is one (RFC 1071, section 2). */
static __always_inline __u32 halves(__u32 word)
{
    return (word & 0xffff) + (word >> 16);
}

static __always_inline __u16 folded(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)~sum;
}

/* splitmix64's last step: one number from another, such that neighbours have nothing in common. */
static __always_inline __u64 mixed(__u64 x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* The 24 bits of the initial sequence number that say that an answer belongs to a connection of ours: a hash of its
 * addresses (an IPv6 address folded to 32 bits) and ports, all as they stand in the packet. */
static __always_inline __u32 cookie(__u32 source, __u32 destination, __be16 sport, __be16 dport)
{
    __u64 a = ((__u64)source << 32) | destination;
    __u64 b = ((__u64)sport << 16) | dport;

    return mixed(a + b * 0x9e3779b97f4a7c15ULL) >> 40;
}

/* The acted server's initial sequence number: of the client's alone, so that the client can tell it through any
 * translation of addresses. */
static __always_inline __u32 server_isn(__u32 client_isn)
{
    return mixed(client_isn + 0x5851f42d4c957f2dULL);
}

static __always_inline __u32 folded_address(const __be32 *a)
{
    return a[0] ^ a[1] ^ a[2] ^ a[3];
}

#endif
