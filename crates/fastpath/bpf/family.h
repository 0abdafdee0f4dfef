/* What differs between IPv4 and IPv6: included with FAMILY 4 or 6 before the parts that are written once for both. */
#undef F
#undef WORDS
#undef ADDR
#undef FLOW
#undef PACKET
#undef AF
#undef L3_BYTES
#undef ETHERTYPE
#undef CFG
#undef FAMILY_INDEX

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define F(name) JOIN(name, FAMILY)

#define ADDR struct F(addr)
#define FLOW struct F(flow)
#define PACKET struct F(packet)
#define CFG(name) cfg.F(name)

#if FAMILY == 4
#define WORDS 1
#define AF AF_INET
#define L3_BYTES sizeof(struct iphdr)
#define ETHERTYPE bpf_htons(ETH_P_IP)
#define FAMILY_INDEX 0
#else
#define WORDS 4
#define AF AF_INET6
#define L3_BYTES sizeof(struct ipv6hdr)
#define ETHERTYPE bpf_htons(ETH_P_IPV6)
#define FAMILY_INDEX 1
#endif

INLINE bool F(same)(const ADDR *a, const ADDR *b)
{
#if FAMILY == 4
    return a->w[0] == b->w[0];
#else
    return !((a->w[0] ^ b->w[0]) | (a->w[1] ^ b->w[1]) | (a->w[2] ^ b->w[2]) | (a->w[3] ^ b->w[3]));
#endif
}

/* An address as keys of both families hold it. */
INLINE void F(widen)(__be32 *to, const ADDR *from)
{
    to[0] = from->w[0];
#if FAMILY == 6
    to[1] = from->w[1];
    to[2] = from->w[2];
    to[3] = from->w[3];
#else
    to[1] = to[2] = to[3] = 0;
#endif
}

INLINE void F(narrow)(ADDR *to, const __be32 *from)
{
    to->w[0] = from[0];
#if FAMILY == 6
    to->w[1] = from[1];
    to->w[2] = from[2];
    to->w[3] = from[3];
#endif
}
