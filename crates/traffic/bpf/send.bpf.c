/* Makes frames: run on live frames in a loop, each run writes one frame and sends it out of the interface that the
 * frames pretend to come from. A frame is written whole each time, as the kernel hands the pages round with what the
 * last receiver left in them. */
#include "abi.h"
#include "headers.h"
#include <bpf/bpf_tracing.h>

/* What is sent. */
const volatile struct stream config SEC(".rodata.config");

/* How far it is. */
struct state state SEC(".data.state");

/* Whose refusals are counted. */
const volatile struct device device SEC(".rodata.device");

/* The frames of a capture, in order. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct replayed);
} capture SEC(".maps");

/* Whether a frame is to be sent now. A sender that was kept from its work catches up at twice its rate at most, so
 * that no ring down the way sees a burst that the rate does not say. */
static __always_inline bool due(struct state *s)
{
    __u64 now;

    if (s->sent >= s->limit)
        return false;
    if (!config.paced)
        return true;
    now = bpf_ktime_get_ns() << 8;
    if (now < s->next || now < s->earliest)
        return false;
    if (now - s->next > s->missed)
        s->next = now - s->missed;
    s->next += s->interval;
    s->earliest = now + s->gap;
    return true;
}

/* The next flow in order: ports of the source first, then of the destination, then addresses likewise. */
static __always_inline void next_flow(struct state *s)
{
    if (++s->flow >= config.flow_count) {
        __u64 first = config.flow_first;

        s->flow = 0;
        s->epoch++;
        s->sport = first % config.sport.count;
        first /= config.sport.count;
        s->dport = first % config.dport.count;
        first /= config.dport.count;
        s->source = first % config.source.count;
        s->destination = first / config.source.count;
        return;
    }
    if (++s->sport < config.sport.count)
        return;
    s->sport = 0;
    if (++s->dport < config.dport.count)
        return;
    s->dport = 0;
    if (++s->source < config.source.count)
        return;
    s->source = 0;
    s->destination++;
}

static __always_inline __u32 drawn(__u32 from, __u32 count)
{
    return ((__u64)from * count) >> 32;
}

static __always_inline void draw_flow(struct state *s)
{
    __u64 ports = mixed(config.seed + s->sent * 2);
    __u64 addresses = mixed(config.seed + s->sent * 2 + 1);

    s->sport = drawn(ports, config.sport.count);
    s->dport = drawn(ports >> 32, config.dport.count);
    s->source = drawn(addresses, config.source.count);
    s->destination = drawn(addresses >> 32, config.destination.count);
}

static __always_inline __u16 next_size(struct state *s)
{
    __u32 at = s->size;

    if (config.pattern_len <= 1)
        return config.pattern[0];
    s->size = at + 1 >= config.pattern_len ? 0 : at + 1;
    return config.pattern[at & (PATTERN - 1)];
}

/* Sequence and acknowledgement of a segment of an acted connection, and what they add to the checksum. */
static __always_inline __u32 act(struct state *s, struct tcp *tcp, __u32 source, __u32 destination)
{
    __u32 isn = (s->epoch << 24) + cookie(source, destination, tcp->source, tcp->destination);
    __u32 seq = isn, ack = 0;

    if (config.act == ACT_REQUEST || config.act == ACT_RESET)
        seq = isn + 1;
    if (config.act != ACT_SYN)
        ack = server_isn(isn) + 1;
    tcp->seq = bpf_htonl(seq);
    tcp->ack = bpf_htonl(ack);
    return halves(tcp->seq) + halves(tcp->ack);
}

SEC("xdp")
int send(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    void *frame = data;
    const int ip = config.family == 4 ? IP4 : IP6;
    __be32 source, destination;
    struct state *s = &state;
    __be16 sport, dport;
    __u64 *words = data;
    __u32 sum, size;
    __u16 length; /* of the packet */
    int i;

    if (!due(s))
        return XDP_DROP;
    if (data + TEMPLATE > end)
        return XDP_ABORTED;
    if (config.random)
        draw_flow(s);
    size = next_size(s);
    /* A segment that is acted out may be shorter than the frame, which is then filled up. */
    length = (config.act != ACT_NONE ? config.header : size) - ETHERNET;

#pragma unroll
    for (i = 0; i < TEMPLATE / 8; i++)
        if (i < config.words)
            words[i] = ((const volatile __u64 *)config.template)[i];

    source = bpf_htonl(config.source.first + s->source);
    destination = bpf_htonl(config.destination.first + s->destination);
    sport = bpf_htons(config.sport.first + s->sport);
    dport = bpf_htons(config.dport.first + s->dport);
    sum = config.transport_sum;

    if (config.family == 4) {
        struct ip4 *ip4 = data + ETHERNET;
        __be16 total = bpf_htons(length);

        ip4->total = total;
        ip4->source = source;
        ip4->destination = destination;
        ip4->check = folded(config.ip_sum + total + halves(source) + halves(destination));
    } else {
        struct ip6 *ip6 = data + ETHERNET;

        ip6->payload = bpf_htons(length - IP6);
        ip6->source[3] = source;
        ip6->destination[3] = destination;
    }
    /* An ICMP checksum covers addresses and length in IPv6 alone. */
    if (config.protocol != PROTOCOL_ICMP)
        sum += halves(source) + halves(destination) + bpf_htons(length - ip);
    sum += sport + dport;

    data += ETHERNET + ip;
    if (config.protocol == PROTOCOL_TCP) {
        struct tcp *tcp = data;

        tcp->source = sport;
        tcp->destination = dport;
        if (config.act != ACT_NONE) {
            if (config.family == 6) {
                struct ip6 *ip6 = data - IP6;

                source = folded_address(ip6->source);
                destination = folded_address(ip6->destination);
            }
            sum += act(s, tcp, source, destination);
        }
    } else if (config.protocol == PROTOCOL_UDP) {
        __be16 *udp = data;

        udp[0] = sport;
        udp[1] = dport;
        udp[2] = bpf_htons(length - ip);
        sum += udp[2];
    } else {
        __be16 *icmp = data;

        icmp[2] = sport;
        icmp[3] = dport;
    }
    if (config.signed_) {
        struct signature *signature = frame + config.header;
        __be32 sequence = bpf_htonl((__u32)s->sent);

        signature->sequence = sequence;
        sum += halves(sequence);
        if (config.stamped) {
            __u64 now = bpf_ktime_get_ns();

            signature->time = now;
            sum += halves(now) + halves(now >> 32);
        }
    }
    if (config.protocol == PROTOCOL_TCP) {
        ((struct tcp *)data)->check = folded(sum);
    } else if (config.protocol == PROTOCOL_UDP) {
        __u16 check = folded(sum);

        /* Zero would say that there is no checksum (RFC 768). */
        ((__u16 *)data)[3] = check ? check : 0xffff;
    } else {
        ((__u16 *)data)[1] = folded(sum);
    }

    s->sent++;
    s->bytes += size;
    if (!config.random && (config.flow_count > 1 || config.act != ACT_NONE))
        next_flow(s);
    /* Always shorter than what it was run with: that has the kernel write the frame's length anew, which the last
     * receiver may have changed. */
    if (bpf_xdp_adjust_tail(ctx, (int)size - config.room))
        return XDP_ABORTED;
    return XDP_TX;
}

/* Sends the frames of a capture, in order and round and round. */
SEC("xdp")
int replay(struct xdp_md *ctx)
{
    struct state *s = &state;
    struct replayed *frame;
    __u32 at = s->flow;
    __u32 len;

    if (!due(s))
        return XDP_DROP;
    frame = bpf_map_lookup_elem(&capture, &at);
    if (!frame)
        return XDP_ABORTED;
    len = frame->len;
    if (len < ETHERNET || len > REPLAY_FRAME || bpf_xdp_adjust_tail(ctx, (int)len - config.room))
        return XDP_ABORTED;
    if (bpf_xdp_store_bytes(ctx, 0, frame->data, len))
        return XDP_ABORTED;
    s->sent++;
    s->bytes += len;
    s->flow = at + 1 >= config.flow_count ? 0 : at + 1;
    return XDP_TX;
}

struct ns_common {
    unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
    struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
    struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
    int ifindex;
    possible_net_t nd_net;
} __attribute__((preserve_access_index));

static __always_inline bool ours(const struct net_device *dev)
{
    return dev->ifindex == (int)device.ifindex && dev->nd_net.net->ns.inum == device.namespace_inode;
}

/* Counts what our interface had no room for: frames on their way out, of the sender to the same interface. */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(refused, const struct net_device *from, const struct net_device *to, int sent, int drops, int error)
{
    if (drops > 0 && from == to && ours(to))
        __sync_fetch_and_add(&state.refused, drops);
    return 0;
}

/* Tells why frames do not even come as far: the interface takes none, or none of this length. */
SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(impossible, const struct net_device *from, const void *program, const void *to, int error)
{
    if (error < 0 && ours(from)) {
        state.error = -error;
        __sync_fetch_and_add(&state.refused, 1);
    }
    return 0;
}

char _license[] SEC("license") = "GPL";
