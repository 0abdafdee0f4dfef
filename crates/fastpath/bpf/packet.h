/* One look at the headers: a packet becomes a small descriptor, and nobody parses again. Per family. */

#ifndef PACKET_KINDS
#define PACKET_KINDS
#define KIND_OPTIONS 1  /* has IP options or extension headers */
#define KIND_FIRST 2    /* first fragment of several */
#define KIND_LATER 4    /* a later fragment: no ports */
#define KIND_ERROR 8    /* an ICMP error */
#define KIND_CONTROL 16 /* other ICMP that is no echo */
#define KIND_MOVED 32   /* of a flow whose member is gone */

#define IPV4_FRAGMENT 0x3fff /* more to come, or not at the beginning */
#define IPV4_OFFSET 0x1fff

#define EXTENSIONS 6 /* extension headers that are walked */
#define EXT_HOP_BY_HOP 0
#define EXT_ROUTING 43
#define EXT_FRAGMENT 44
#define EXT_DESTINATION 60
#define EXT_AUTHENTICATION 51

struct extension {
    __u8 next, length;
    __u8 rest[6];
};
struct fragment_header {
    __u8 next, reserved;
    __be16 offset; /* in units of eight bytes, and in the lowest bit whether more follow */
    __be32 id;
};
#endif

PACKET
{
    ADDR src, dst;
    __be16 sport, dport; /* an echo's id is the port of the one who asks */
    __u8 proto;
    __u8 tcp;   /* flags of TCP */
    __u8 kind;  /* KIND_… */
    __u8 l4;    /* where the header of layer 4 begins, from the frame's start */
    __u16 size; /* bytes of the IP packet */
    __u8 ttl, tos;
    __u32 now;
    __be32 fragment; /* its identification */
    __u8 icmp, icmp_code;
    __u8 spare[2];
};

INLINE bool F(shunned)(const PACKET *p);

/* The IP header, and unless the packet is `resumed`, whether its source is shunned: before anything is left to the kernel.
 * GO_ON, or what becomes of the packet. */
INLINE int F(parse_ip)(struct xdp_md *ctx, void *data, void *end, PACKET *p, bool resumed)
{
#if FAMILY == 4
    struct iphdr *ip = data + ETH_HLEN;
    __u32 header;
    __u16 fragment;

    if (unlikely((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5))
        return counted(DROP_MALFORMED, XDP_DROP);
    header = ip->ihl * 4;
    p->src.w[0] = ip->saddr;
    p->dst.w[0] = ip->daddr;
    p->proto = ip->protocol;
    p->size = bpf_ntohs(ip->tot_len);
    p->ttl = ip->ttl;
    p->tos = ip->tos;
    p->kind = header == sizeof(*ip) ? 0 : KIND_OPTIONS;
    p->l4 = ETH_HLEN + header;
    fragment = ip->frag_off & bpf_htons(IPV4_FRAGMENT);
    if (unlikely(fragment)) {
        p->fragment = ip->id;
        p->kind |= fragment & bpf_htons(IPV4_OFFSET) ? KIND_LATER : KIND_FIRST;
    }
    if (unlikely(p->size < header))
        return counted(DROP_MALFORMED, XDP_DROP);
    if (unlikely(data + ETH_HLEN + p->size > end && bpf_xdp_get_buff_len(ctx) < (__u64)ETH_HLEN + p->size))
        return counted(DROP_MALFORMED, XDP_DROP);
    if (!resumed && unlikely(F(shunned)(p)))
        return counted(DROP_SHUN, XDP_DROP);
    /* 224/3 is multicast, reserved, and the broadcast address. */
    if (unlikely((p->dst.w[0] & bpf_htonl(0xe0000000)) == bpf_htonl(0xe0000000)))
        return counted(PASS_MULTICAST, XDP_PASS);
#else
    struct ipv6hdr *ip = data + ETH_HLEN;
    __u32 at = ETH_HLEN + sizeof(*ip);
    __u8 next;

    if (unlikely((void *)(ip + 1) > end || ip->version != 6))
        return counted(DROP_MALFORMED, XDP_DROP);
    __builtin_memcpy(&p->src, &ip->saddr, sizeof(p->src));
    __builtin_memcpy(&p->dst, &ip->daddr, sizeof(p->dst));
    /* A payload length of 0 belongs to jumbograms, which no interface here takes. */
    p->size = bpf_ntohs(ip->payload_len) + sizeof(*ip);
    p->ttl = ip->hop_limit;
    p->tos = ip->priority << 4 | ip->flow_lbl[0] >> 4;
    p->kind = 0;
    next = ip->nexthdr;
    if (unlikely(data + ETH_HLEN + p->size > end && bpf_xdp_get_buff_len(ctx) < (__u64)ETH_HLEN + p->size))
        return counted(DROP_MALFORMED, XDP_DROP);
    if (!resumed && unlikely(F(shunned)(p)))
        return counted(DROP_SHUN, XDP_DROP);
    if (unlikely((p->dst.w[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000)))
        return counted(PASS_MULTICAST, XDP_PASS);
    /* What is sent between neighbours stays with the kernel: no router sends it on (RFC 4291, 2.5.6). */
    if (unlikely((p->dst.w[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000) ||
                 (p->src.w[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000)))
        return counted(PASS_NEIGHBOUR, XDP_PASS);
    if (unlikely(next != IPPROTO_TCP && next != IPPROTO_UDP && next != IPPROTO_ICMPV6)) {
        for (int i = 0; i < EXTENSIONS; i++) {
            struct extension *extension = data + at;

            if (next != EXT_HOP_BY_HOP && next != EXT_ROUTING && next != EXT_FRAGMENT && next != EXT_DESTINATION)
                break;
            if ((void *)(extension + 1) > end)
                return counted(DROP_MALFORMED, XDP_DROP);
            if (next == EXT_FRAGMENT) {
                struct fragment_header *fragment = (void *)extension;

                next = fragment->next;
                p->fragment = fragment->id;
                /* An atomic fragment (RFC 6946) is a whole packet. */
                if (fragment->offset & bpf_htons(0xfff8))
                    p->kind |= KIND_LATER;
                else if (fragment->offset & bpf_htons(1))
                    p->kind |= KIND_FIRST;
                at += sizeof(*fragment);
                if (p->kind & KIND_LATER)
                    break;
                continue;
            }
            p->kind |= KIND_OPTIONS;
            next = extension->next;
            at += (extension->length + 1) * 8;
            if (at > 200)
                return counted(PASS_OPTIONS, XDP_PASS);
        }
        if (unlikely(at > (__u32)ETH_HLEN + p->size))
            return counted(DROP_MALFORMED, XDP_DROP);
        /* More of them than are walked. */
        if (unlikely(!(p->kind & KIND_LATER) && (next == EXT_HOP_BY_HOP || next == EXT_ROUTING ||
                                                 next == EXT_FRAGMENT || next == EXT_DESTINATION)))
            return counted(PASS_OPTIONS, XDP_PASS);
    }
    p->proto = next;
    p->l4 = at;
#endif
    return GO_ON;
}

/* Whether the packet, and not just the frame, which may be padded, has so many bytes of layer 4. */
INLINE bool F(holds)(const PACKET *p, __u32 bytes)
{
    return p->l4 + bytes <= (__u32)ETH_HLEN + p->size;
}

/* Ports, and what stands for them. */
INLINE int F(parse_transport)(void *data, void *end, PACKET *p)
{
    void *l4 = data + p->l4;

    p->tcp = 0;
    p->sport = p->dport = 0;
    if (unlikely(p->kind & KIND_LATER))
        return GO_ON;
    if (likely(p->proto == IPPROTO_TCP)) {
        struct tcphdr *tcp = l4;

        if (unlikely((void *)(tcp + 1) > end || tcp->doff < 5 || !F(holds)(p, sizeof(*tcp))))
            return counted(DROP_MALFORMED, XDP_DROP);
        p->sport = tcp->source;
        p->dport = tcp->dest;
        p->tcp = ((__u8 *)tcp)[13];
    } else if (p->proto == IPPROTO_UDP) {
        struct udphdr *udp = l4;

        if (unlikely((void *)(udp + 1) > end || !F(holds)(p, sizeof(*udp))))
            return counted(DROP_MALFORMED, XDP_DROP);
        p->sport = udp->source;
        p->dport = udp->dest;
#if FAMILY == 4
    } else if (p->proto == IPPROTO_ICMP) {
        struct icmphdr *icmp = l4;

        if (unlikely((void *)(icmp + 1) > end || !F(holds)(p, sizeof(*icmp))))
            return counted(DROP_MALFORMED, XDP_DROP);
        p->icmp = icmp->type;
        p->icmp_code = icmp->code;
        if (icmp->type == ICMP_ECHO)
            p->sport = icmp->un.echo.id;
        else if (icmp->type == ICMP_ECHOREPLY)
            p->dport = icmp->un.echo.id;
        else if (icmp->type == ICMP_DEST_UNREACH || icmp->type == ICMP_TIME_EXCEEDED ||
                 icmp->type == ICMP_PARAMETERPROB || icmp->type == ICMP_SOURCE_QUENCH)
            p->kind |= KIND_ERROR;
        else
            p->kind |= KIND_CONTROL;
#else
    } else if (p->proto == IPPROTO_ICMPV6) {
        struct icmp6hdr *icmp = l4;

        if (unlikely((void *)(icmp + 1) > end || !F(holds)(p, sizeof(*icmp))))
            return counted(DROP_MALFORMED, XDP_DROP);
        p->icmp = icmp->icmp6_type;
        p->icmp_code = icmp->icmp6_code;
        if (icmp->icmp6_type == ICMPV6_ECHO_REQUEST)
            p->sport = icmp->icmp6_identifier;
        else if (icmp->icmp6_type == ICMPV6_ECHO_REPLY)
            p->dport = icmp->icmp6_identifier;
        else if (icmp->icmp6_type < ICMPV6_INFOMSG_MASK)
            p->kind |= KIND_ERROR;
        else if (icmp->icmp6_type >= 130 && icmp->icmp6_type <= 153)
            /* Listener and neighbour discovery, and their kin. */
            return counted(PASS_NEIGHBOUR, XDP_PASS);
        else
            p->kind |= KIND_CONTROL;
#endif
    }
    return GO_ON;
}
