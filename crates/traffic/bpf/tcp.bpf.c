/* The two ends of TCP connections, acted out: each answers a segment from the segment alone, so that no number of
 * connections takes memory here. What comes back to the client is known as its own by a hash of addresses and ports in
 * the initial sequence number, which every acknowledgement repeats.
 *
 *   client                server
 *   SYN            →
 *                  ←      SYN-ACK
 *   ACK, request   →                  (with `hold` the ACK alone, and that is all)
 *                  ←      response
 *   FIN            →
 *                  ←      FIN
 *   ACK            →
 */
#include "abi.h"
#include "headers.h"

/* What the ends do. */
const volatile struct acting config SEC(".rodata.config");

/* What request and response carry, where helpers can read it. */
const volatile __u8 request[REQUEST] SEC(".rodata.request");
const volatile __u8 response[RESPONSE] SEC(".rodata.response");

/* What was seen, a CPU. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct acted);
} acted SEC(".maps");

#define SHORTEST 60 /* bytes of a frame */

/* A segment that arrived. */
struct segment {
    bool v6;
    __u32 frame; /* bytes */
    __u32 data;  /* bytes of payload */
    __u32 seq;
    __u32 ack;
    __u8 flags;
    __u32 cookie; /* of the connection as the sender of the first SYN, the receiver of this segment, sees it */
};

/* What to answer it with. */
struct reply {
    __u32 seq;
    __u32 ack;
    __u8 flags;
    __u16 options; /* bytes */
    __u16 data;    /* bytes of payload */
    __u32 data_sum;
};

/* Reads a segment; false for what is not TCP over IP without options or fragments, which is the kernel's. */
static __always_inline bool read_segment(struct xdp_md *ctx, struct segment *s)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr *ethernet = data;
    __u32 source, destination, total, header;
    struct tcp *tcp;

    if (data + ETHERNET + IP4 + sizeof(*tcp) > end)
        return false;
    if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
        struct ip4 *ip4 = data + ETHERNET;

        if (ip4->version_length != 0x45 || ip4->protocol != PROTOCOL_TCP || ip4->fragment & bpf_htons(0x3fff))
            return false;
        s->v6 = false;
        source = ip4->source;
        destination = ip4->destination;
        total = bpf_ntohs(ip4->total) - IP4;
        tcp = data + ETHERNET + IP4;
    } else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
        struct ip6 *ip6 = data + ETHERNET;

        if (data + ETHERNET + IP6 + sizeof(*tcp) > end || ip6->next != PROTOCOL_TCP)
            return false;
        s->v6 = true;
        source = folded_address(ip6->source);
        destination = folded_address(ip6->destination);
        total = bpf_ntohs(ip6->payload);
        tcp = data + ETHERNET + IP6;
    } else {
        return false;
    }
    header = (tcp->offset >> 4) * 4;
    if (header < sizeof(*tcp) || header > total)
        return false;
    s->frame = bpf_xdp_get_buff_len(ctx);
    s->data = total - header;
    s->seq = bpf_ntohl(tcp->seq);
    s->ack = bpf_ntohl(tcp->ack);
    s->flags = tcp->flags;
    s->cookie = cookie(destination, source, tcp->destination, tcp->source);
    return true;
}

static __always_inline void swap_macs(struct ethhdr *ethernet)
{
    __u8 mac[ETH_ALEN];

    __builtin_memcpy(mac, ethernet->h_dest, ETH_ALEN);
    __builtin_memcpy(ethernet->h_dest, ethernet->h_source, ETH_ALEN);
    __builtin_memcpy(ethernet->h_source, mac, ETH_ALEN);
}

/* Turns the segment in the frame round into its answer, with every header field and checksum its own. */
static __always_inline int answer(struct xdp_md *ctx, const struct segment *s, const struct reply *reply,
                                  const volatile void *payload, struct acted *counts)
{
    const __u32 ip = s->v6 ? IP6 : IP4;
    __u32 length = sizeof(struct tcp) + reply->options + reply->data;
    __u32 frame = ETHERNET + ip + length;
    void *data, *end;
    struct tcp *tcp;
    __be16 port;
    __u64 sum;

    if (frame < SHORTEST)
        frame = SHORTEST;
    if (frame != s->frame && bpf_xdp_adjust_tail(ctx, (int)frame - (int)s->frame)) {
        counts->no_room++;
        return XDP_DROP;
    }
    data = (void *)(long)ctx->data;
    end = (void *)(long)ctx->data_end;
    if (data + ETHERNET + IP4 + sizeof(*tcp) + SYN_OPTIONS > end && data + SHORTEST > end)
        return XDP_DROP;
    swap_macs(data);
    if (s->v6) {
        struct ip6 *ip6 = data + ETHERNET;
        __be32 word;
        int i;

        tcp = data + ETHERNET + IP6;
        if ((void *)(tcp + 1) > end)
            return XDP_DROP;
        ip6->version_class_label = bpf_htonl(6u << 28);
        ip6->payload = bpf_htons(length);
        ip6->hops = 64;
        sum = 0;
#pragma unroll
        for (i = 0; i < 4; i++) {
            word = ip6->source[i];
            ip6->source[i] = ip6->destination[i];
            ip6->destination[i] = word;
            sum += (__u64)ip6->source[i] + word;
        }
    } else {
        struct ip4 *ip4 = data + ETHERNET;
        __be32 word = ip4->source;

        tcp = data + ETHERNET + IP4;
        if ((void *)(tcp + 1) > end)
            return XDP_DROP;
        ip4->source = ip4->destination;
        ip4->destination = word;
        sum = (__u64)word + ip4->source;
        ip4->tos = 0;
        ip4->total = bpf_htons(IP4 + length);
        ip4->id = 0;
        ip4->fragment = bpf_htons(0x4000);
        ip4->ttl = 64;
        ip4->check = folded(sum + bpf_htons(0x4500) + ip4->total + ip4->fragment + bpf_htons(64 << 8 | PROTOCOL_TCP));
    }
    port = tcp->source;
    tcp->source = tcp->destination;
    tcp->destination = port;
    tcp->seq = bpf_htonl(reply->seq);
    tcp->ack = bpf_htonl(reply->ack);
    tcp->offset = (sizeof(*tcp) + reply->options) << 2;
    tcp->flags = reply->flags;
    tcp->window = bpf_htons(0xffff);
    tcp->urgent = 0;
    sum += bpf_htons(length) + bpf_htons(PROTOCOL_TCP) + port + tcp->source + (__u64)tcp->seq + tcp->ack +
           bpf_htons(tcp->offset << 8 | reply->flags) + tcp->window + reply->data_sum;
    if (reply->options) {
        __u32 *options = (void *)(tcp + 1);
        int i;

        if ((void *)options + SYN_OPTIONS > end)
            return XDP_DROP;
#pragma unroll
        for (i = 0; i < SYN_OPTIONS / 4; i++) {
            options[i] = ((const __u32 *)syn_options)[i];
            sum += options[i];
        }
    }
    tcp->check = folded(sum);
    if (reply->data) {
        if (bpf_xdp_store_bytes(ctx, ETHERNET + ip + sizeof(*tcp), (void *)payload, reply->data))
            return XDP_DROP;
    }
    return XDP_TX;
}

static __always_inline struct acted *counts_of_cpu(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&acted, &zero);
}

/* On the interface that the SYNs go out of. */
SEC("xdp.frags")
int client(struct xdp_md *ctx)
{
    struct acted *counts = counts_of_cpu();
    struct reply reply = {};
    struct segment s;
    __u32 step;

    if (!counts || !read_segment(ctx, &s))
        return XDP_PASS;
    if (!(s.flags & TCP_ACK)) {
        counts->strange++;
        return XDP_PASS;
    }
    /* How far the other side says we have come tells where in the exchange we are; the epoch stands above. */
    step = (s.ack - s.cookie) & 0xffffff;
    if (step > 2u + config.request_len) {
        counts->strange++;
        return XDP_PASS;
    }
    if (s.flags & TCP_RST) {
        counts->resets++;
        return XDP_DROP;
    }
    reply.flags = TCP_ACK;
    reply.seq = s.ack;
    reply.ack = s.seq + 1;
    if (s.flags & TCP_SYN) {
        if (step != 1) {
            counts->strange++;
            return XDP_DROP;
        }
        counts->established++;
        if (config.hold)
            return answer(ctx, &s, &reply, NULL, counts);
        reply.flags = TCP_ACK | TCP_PSH;
        reply.data = config.request_len;
        reply.data_sum = config.request_sum;
        return answer(ctx, &s, &reply, request, counts);
    }
    if (s.flags & TCP_FIN && step == 2u + config.request_len) {
        counts->closed++;
        reply.ack = s.seq + s.data + 1;
        return answer(ctx, &s, &reply, NULL, counts);
    }
    if (s.data || s.flags & TCP_FIN) {
        /* All but the FIN is acknowledged: ours goes out with this acknowledgement. */
        if (s.data)
            counts->responses++;
        reply.flags = TCP_ACK | TCP_FIN;
        reply.seq = s.ack - step + 1 + config.request_len;
        reply.ack = s.seq + s.data + !!(s.flags & TCP_FIN);
        if (s.flags & TCP_FIN)
            counts->closed++;
        return answer(ctx, &s, &reply, NULL, counts);
    }
    if (step == 1)
        counts->alive++;
    return XDP_DROP;
}

/* On the interface that the SYNs arrive at. */
SEC("xdp.frags")
int server(struct xdp_md *ctx)
{
    struct acted *counts = counts_of_cpu();
    struct reply reply = {};
    struct segment s;

    if (!counts || !read_segment(ctx, &s))
        return XDP_PASS;
    if (s.flags & TCP_RST) {
        counts->ends++;
        return XDP_DROP;
    }
    if (s.flags & TCP_SYN) {
        counts->syns++;
        reply.seq = server_isn(s.seq);
        reply.ack = s.seq + 1;
        reply.flags = TCP_SYN | TCP_ACK;
        reply.options = SYN_OPTIONS;
        return answer(ctx, &s, &reply, NULL, counts);
    }
    reply.seq = s.ack;
    reply.ack = s.seq + s.data;
    if (s.flags & TCP_FIN) {
        counts->fins++;
        reply.ack++;
        reply.flags = TCP_FIN | TCP_ACK;
        return answer(ctx, &s, &reply, NULL, counts);
    }
    if (s.data) {
        counts->requests++;
        reply.flags = TCP_PSH | TCP_ACK;
        reply.data = config.response_len;
        reply.data_sum = config.response_sum;
        return answer(ctx, &s, &reply, response, counts);
    }
    if (s.ack == server_isn(s.seq) + 1) {
        /* One before the next byte: a keep-alive (RFC 9293, section 3.8.4), which is answered with where we are. */
        counts->keep_alives++;
        reply.ack = s.seq + 1;
        reply.flags = TCP_ACK;
        return answer(ctx, &s, &reply, NULL, counts);
    }
    if (s.ack == server_isn(s.seq - 1) + 1)
        counts->accepted++;
    else
        counts->ends++;
    return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
