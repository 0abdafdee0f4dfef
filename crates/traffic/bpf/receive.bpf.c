/* Takes in what the generator sent: counts frames and, by the sequence number in the signature, what came late. */
#include "abi.h"
#include "headers.h"

/* What to do with frames. */
const volatile struct receiving config SEC(".rodata.config");

/* What arrived, a CPU. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct received);
} received SEC(".maps");

/* What arrived of each stream, a CPU. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, STREAMS);
    __type(key, __u32);
    __type(value, struct stream_received);
} streams SEC(".maps");

/* How many took between 2^n and 2^(n+1) nanoseconds, of those that say when they were sent. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, DELAYS);
    __type(key, __u32);
    __type(value, __u64);
} delays SEC(".maps");

#define TAGS 2   /* VLAN tags at most */
#define TUNNELS 1 /* packets in packets at most */

/* Goes over headers; `at` is where the next starts. */
struct cursor {
    void *at;
    void *end;
};

static __always_inline void *header(struct cursor *c, __u32 size)
{
    void *at = c->at;

    if (at + size > c->end)
        return NULL;
    c->at = at + size;
    return at;
}

/* The EtherType, VLAN tags gone over; 0 for a frame that ends before. */
static __always_inline __be16 ether_type(struct cursor *c)
{
    struct ethhdr *ethernet = header(c, sizeof(*ethernet));
    __be16 type;
    int i;

    if (!ethernet)
        return 0;
    type = ethernet->h_proto;
    for (i = 0; i < TAGS; i++) {
        __be16 *tag;

        if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
            break;
        tag = header(c, 4);
        if (!tag)
            return 0;
        type = tag[1];
    }
    return type;
}

/* The protocol that a packet carries, with the cursor after its header; -1 for a fragment or a packet that ends before. */
static __always_inline int carried(struct cursor *c, bool v6)
{
    struct ip4 *ip4;
    struct ip6 *ip6;
    __u32 options;

    if (v6) {
        ip6 = header(c, sizeof(*ip6));
        return ip6 ? ip6->next : -1;
    }
    ip4 = header(c, sizeof(*ip4));
    if (!ip4 || ip4->fragment & bpf_htons(0x3fff))
        return -1;
    options = (ip4->version_length & 15) * 4;
    if (options < IP4 || !header(c, (options - IP4) & 63))
        return -1;
    return ip4->protocol;
}

/* The signature at the start of what a UDP, TCP or ICMP packet carries. */
static __always_inline struct signature *signature(struct cursor *c, int protocol)
{
    struct signature *found;
    struct tcp *tcp;
    __u32 options;

    if (protocol == PROTOCOL_TCP) {
        tcp = header(c, sizeof(*tcp));
        if (!tcp)
            return NULL;
        options = (tcp->offset >> 4) * 4;
        if (options < sizeof(*tcp) || !header(c, (options - sizeof(*tcp)) & 63))
            return NULL;
    } else if (protocol == PROTOCOL_UDP || protocol == PROTOCOL_ICMP || protocol == PROTOCOL_ICMP6) {
        if (!header(c, 8))
            return NULL;
    } else {
        return NULL;
    }
    found = header(c, sizeof(*found));
    return found && found->magic == bpf_htons(SIGNATURE_MAGIC) ? found : NULL;
}

static __always_inline struct signature *find_signature(struct cursor *c, __be16 type)
{
    bool v6 = type == bpf_htons(ETH_P_IPV6);
    int protocol = carried(c, v6);
    int i;

    for (i = 0; i < TUNNELS && (protocol == PROTOCOL_IPIP || protocol == PROTOCOL_IPV6); i++)
        protocol = carried(c, protocol == PROTOCOL_IPV6);
    return signature(c, protocol);
}

static __always_inline void count_delay(__u64 sent)
{
    __u64 took = bpf_ktime_get_ns() - sent;
    __u32 power = 0;
    __u64 *count;
    int i;

#pragma unroll
    for (i = 32; i; i >>= 1) {
        if (took >> i) {
            took >>= i;
            power += i;
        }
    }
    if (power >= DELAYS)
        power = DELAYS - 1;
    count = bpf_map_lookup_elem(&delays, &power);
    if (count)
        ++*count;
}

static __always_inline void count_stream(const struct signature *signature, __u64 bytes)
{
    __u32 number = bpf_ntohs(signature->stream);
    struct stream_received *stream = bpf_map_lookup_elem(&streams, &number);
    __u64 sequence;

    if (!stream)
        return;
    sequence = bpf_ntohl(signature->sequence);
    if (stream->packets++ == 0) {
        stream->lowest = sequence;
        stream->highest = sequence;
    } else {
        /* What is nearest to the highest yet, of all numbers that end in these 32 bits. */
        sequence = stream->highest + (__s64)(__s32)((__u32)sequence - (__u32)stream->highest);
        if ((__s64)(sequence - stream->highest) > 0) {
            stream->highest = sequence;
        } else {
            stream->late++;
            if (stream->highest - sequence > stream->farthest)
                stream->farthest = stream->highest - sequence;
            if ((__s64)(sequence - stream->lowest) < 0)
                stream->lowest = sequence;
        }
    }
    stream->bytes += bytes;
    if (signature->time)
        count_delay(signature->time);
}

SEC("xdp.frags")
int receive(struct xdp_md *ctx)
{
    struct cursor c = {(void *)(long)ctx->data, (void *)(long)ctx->data_end};
    struct signature *signature = NULL;
    struct received *counts;
    __u32 zero = 0;
    __u64 bytes;
    __be16 type;

    counts = bpf_map_lookup_elem(&received, &zero);
    if (!counts)
        return XDP_PASS;
    type = ether_type(&c);
    if (type == bpf_htons(ETH_P_IP) || type == bpf_htons(ETH_P_IPV6))
        signature = find_signature(&c, type);
    /* Neighbour discovery is the kernel's, whatever else is counted. */
    if (!signature && (!config.all || type == bpf_htons(ETH_P_ARP))) {
        counts->other++;
        return XDP_PASS;
    }
    bytes = bpf_xdp_get_buff_len(ctx);
    counts->packets++;
    counts->bytes += bytes;
    if (signature)
        count_stream(signature, bytes);
    return config.pass ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
