/* What the programs share with user space: the records of the tables. `src/abi.rs` mirrors this file.
 *
 * Addresses and ports are in network order, times in jiffies, unless a field says otherwise. */
#pragma once

#include <linux/types.h>

/* Part of the name under which tables are pinned: raise it when a record of a pinned table changes. */
#define LAYOUT_VERSION 1

#define WAYS 8         /* entries a bucket of the indexes */
#define PORTS 256      /* interfaces that may be forwarded to; 0 is none */
#define PORT_RANGES 4  /* ranges of ports a translation may take its ports from */
#define NAT_RULES 64   /* rules of source NAT a family */
#define SPANS 16       /* ranges of ports of virtuals on one address and protocol */

struct addr4 {
    __be32 w[1];
};

struct addr6 {
    __be32 w[4];
};

/* 64 bytes, one cache line. An entry is tag << 32 | slot; a tag has its highest bit set, so that no entry is 0. */
struct bucket {
    __u64 entry[WAYS];
};

/* Where the packets of one direction leave. It is written and read as one. */
struct hop {
    __u8 mac[6]; /* of the neighbour */
    __u8 port;   /* index into `ports`; 0 is not known */
    __u8 flags;  /* HOP_… */
} __attribute__((aligned(8)));
#define HOP_UNCACHED 1 /* the route has an MTU of its own: ask each time */

/* The states of a flow, which are its timeout's index as well. */
enum state {
    STATE_FREE = 0,        /* the slot holds no flow */
    STATE_SYN_SENT,        /* the client's SYN was seen */
    STATE_SYN_RECEIVED,    /* it was answered */
    STATE_ESTABLISHED,     /* the answer was acknowledged */
    STATE_FIN_CLIENT,      /* the client has closed its side */
    STATE_FIN_SERVER,      /* the server has */
    STATE_CLOSING,         /* both have */
    STATE_TIME_WAIT,       /* and the last of them was acknowledged */
    STATE_RESET,           /* a reset was seen; what is sent afterwards proves it false */
    STATE_UDP,             /* a datagram was seen, perhaps answered */
    STATE_UDP_STREAM,      /* after an answer more were sent */
    STATE_ICMP,            /* an echo was asked for, perhaps answered */
    STATE_OTHER,           /* a packet of another protocol */
    STATE_ENDED,           /* somebody ended it: it has no time left */
    STATES,
};

/* How packets of a flow are changed on their way. */
enum way {
    WAY_PLAIN = 0,  /* routed as they are */
    WAY_TRANSLATE,  /* addresses and ports are rewritten */
    WAY_DIRECT,     /* direct return: only the MAC addresses change */
    WAY_TUNNEL,     /* encapsulated towards the member */
};

#define FLOW_CONFIRMED 1 /* datagrams: it was answered */
#define FLOW_COUNTED 2   /* it counts against its user's limit */
#define FLOW_PICKED_UP 4 /* its beginning was not seen */

/* A flow: the original tuple is that of its first packet, the translated one as that packet leaves; where nothing is
 * rewritten they are the same. Direction 0 goes as the first packet did, 1 comes back. */
struct flow4 {
    struct addr4 src, dst;
    __be16 sport, dport;
    struct addr4 nsrc, ndst;
    __be16 nsport, ndport;
    __u32 seen; /* when its last packet came */
    __u8 proto, state, flags, way;
    __u16 virtual_server; /* 0 for none */
    __u16 member;         /* 0 for none */
    __u16 rule;           /* of source NAT; 0 for none */
    __u16 idle;           /* seconds it may be silent once established; 0: what its state says */
    struct hop hops[2];
    __u16 fresh[2]; /* when each hop was looked up: jiffies >> HOP_SHIFT */
    __u32 created;
};

struct flow6 {
    struct addr6 src, dst;
    __be16 sport, dport;
    struct addr6 nsrc, ndst;
    __be16 nsport, ndport;
    __u32 seen;
    __u8 proto, state, flags, way;
    __u16 virtual_server;
    __u16 member;
    __u16 rule;
    __u16 idle;
    struct hop hops[2];
    __u16 fresh[2];
    __u32 created;
    __u16 delta[2]; /* what each direction's rewriting adds to a checksum */
    __u32 spare[3];
};
#define HOP_SHIFT 4

/* An interface that may be forwarded to. */
struct port {
    __u32 ifindex;
    __u8 mac[6];
    __u16 mtu;
};

/* The key by which a packet finds the virtual it is for, or the spans of its address. `port` is 0 for spans. Addresses
 * of IPv4 are in the first word. */
struct vip_key {
    __be32 addr[4];
    __be16 port;
    __u8 proto;
    __u8 family; /* 4 or 6 */
};

/* Ranges of ports, host order, that virtuals have on an address. */
struct span {
    __u16 first, last;
    __u32 virtual_server;
};
struct spans {
    struct span span[SPANS]; /* the first without a virtual ends them */
};

#define SNAT_NONE 0
#define SNAT_AUTOMAP 1 /* the address of the interface towards the member */
#define SNAT_POOL 2

/* Whence a translation takes source addresses and ports. */
struct source {
    __u32 kind;       /* SNAT_… */
    __u32 first;      /* of the pool's addresses in `nat_addrs4`, `nat_addrs6` */
    __u32 count;
    __u32 per_user;   /* flows a user may have; 0 for no limit */
    struct {
        __u16 first, last; /* host order; {0, 0} ends them */
    } ports[PORT_RANGES];
};

/* A virtual server. */
struct virtual_server {
    __u8 way;           /* WAY_TRANSLATE, WAY_DIRECT, WAY_TUNNEL */
    __u8 affinity;      /* 1: by the source's address alone */
    __u8 keep_port;     /* 1: members are reached at the port that was asked for */
    __u8 spare;
    __u16 idle;         /* seconds; 0: what the state says */
    __u16 members;      /* members in its Maglev table; 0: none can be chosen */
    __u32 ring;         /* index into `rings` */
    __u32 ring_size;
    struct source source;
};

#define MEMBER_UP 1    /* new flows may be given to it */
#define MEMBER_DRAIN 2 /* its flows go on, it gets no new ones */

/* A member of a pool, as one family of addresses reaches it. */
struct member {
    __be32 addr[4];
    __be16 port;  /* 0: the port that was asked for */
    __u8 family;  /* 4 or 6 */
    __u8 state;   /* MEMBER_… ; 0: its flows are given to others */
    __u32 pool;   /* hash of its pool's name: by it and the address a later process knows the member again */
    __be32 source[4]; /* of what is encapsulated for it: found and written by the programs, 0 until then */
};

/* A rule of source NAT: the first that matches decides. */
struct nat_rule4 {
    struct addr4 from, from_mask, to, to_mask;
    __u32 out; /* ifindex, or 0 for any */
    __u32 id;  /* of the rule in the configuration, from 1 */
    __u32 hairpin;
    struct source source;
};
struct nat_rule6 {
    struct addr6 from, from_mask, to, to_mask;
    __u32 out;
    __u32 id;
    __u32 hairpin;
    struct source source;
};

/* From a fragment to the ports of its datagram. */
struct fragment_key {
    __be32 src[4], dst[4];
    __be32 id;
    __u8 proto, family;
    __u16 spare;
};
struct fragment {
    __be16 sport, dport;
    __u32 seen;
};

/* An entry of the shun list. */
struct shun {
    __u32 until;  /* jiffies */
    __u32 reason; /* whatever the one who added it means by it */
};
struct shun_prefix4 {
    __u32 bits;
    struct addr4 addr;
};
struct shun_prefix6 {
    __u32 bits;
    struct addr6 addr;
};

/* What is counted of a virtual, of a member, of a stage. Per CPU. */
struct tally {
    __u64 packets, bytes, flows;
};

/* Free slots of one family: a chain through the slots themselves, linked by their first word. */
struct magazine {
    __u32 head, count;
};

/* What a CPU keeps of the slot arrays. */
struct slot_cache {
    struct magazine loaded, spare;
    __u32 next, end; /* slots that were never used */
    __u32 hand, hand_end; /* slots to look over for what has expired */
};

/* What all CPUs share of a slot array. Each on a cache line of its own. */
struct slot_state {
    __u64 depot;   /* full magazines: count of changes << 32 | first slot + 1 */
    __u64 pad0[7];
    __u32 fresh;   /* the first slot that was never used */
    __u32 pad1[15];
    __u32 hand;    /* where the next to look for expired flows begins */
    __u32 pad2[15];
};

/* What is set when the program is loaded. */
struct settings {
    __u64 seed[2];
    __u32 buckets4, buckets6; /* of the indexes */
    __u32 slots4, slots6;
    __u32 half_mask;          /* buckets of the half-open tables, a power of two, less one */
    __u32 timeout[STATES];    /* jiffies */
    __u32 fragment_timeout;   /* jiffies */
    __u32 hz;
    __u32 virtuals;           /* how many there are */
    __u32 nat_rules4, nat_rules6;
    __be32 tunnel_source4;    /* of encapsulated packets; 0: the route's */
    struct addr6 tunnel_source6;
    __u8 forward;             /* FORWARD_… */
    __u8 drains;              /* 1: an earlier table is asked first */
    __u8 spare[10];
};
#define FORWARD_OFF 0
#define FORWARD_ROUTED 1
#define FORWARD_TRACKED 2
