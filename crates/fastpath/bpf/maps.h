/* The tables. Capacities that a configuration sets are 1 here and set by the loader. */
#pragma once

#include "common.h"

#define ARRAY(name, record, entries, extra)                                                              \
    struct {                                                                                             \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                                                \
        __uint(map_flags, extra);                                                                        \
        __type(key, __u32);                                                                              \
        __type(value, record);                                                                           \
        __uint(max_entries, entries);                                                                    \
    } name SEC(".maps")

#define PER_CPU(name, record, entries)                                                                   \
    struct {                                                                                             \
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                                         \
        __type(key, __u32);                                                                              \
        __type(value, record);                                                                           \
        __uint(max_entries, entries);                                                                    \
    } name SEC(".maps")

/* Arrays that can be mapped into user space begin on a page: so a bucket is one cache line, and lists need no calls. */

/* Flows, by slot. */
ARRAY(flows4, struct flow4, 1, BPF_F_MMAPABLE);
ARRAY(flows6, struct flow6, 1, BPF_F_MMAPABLE);
/* From the hash of a tuple to slots. */
ARRAY(index4, struct bucket, 1, BPF_F_MMAPABLE);
ARRAY(index6, struct bucket, 1, BPF_F_MMAPABLE);
/* Flows that were not answered yet; the slot is the place of the original tuple's entry in the index. */
ARRAY(half_flows4, struct flow4, 1, BPF_F_MMAPABLE);
ARRAY(half_flows6, struct flow6, 1, BPF_F_MMAPABLE);
ARRAY(half_index4, struct bucket, 1, BPF_F_MMAPABLE);
ARRAY(half_index6, struct bucket, 1, BPF_F_MMAPABLE);
/* Which slots are free: what is shared (0: IPv4, 1: IPv6), and each CPU's part. */
ARRAY(slot_states, struct slot_state, 2, BPF_F_MMAPABLE);
PER_CPU(slot_caches, struct slot_cache, 2);
/* Where each CPU is in looking over the half-open flows. */
PER_CPU(half_hands, __u32, 2);

/* Interfaces that may be forwarded to, by port; their devices; and from the interface's number to the port. */
ARRAY(ports, struct port, PORTS, 0);
struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, PORTS);
} port_devices SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, PORTS);
} port_numbers SEC(".maps");
/* When a packet was last left to the kernel so that it looks after a neighbour. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, struct hop);
    __type(value, __u32);
    __uint(max_entries, 4096);
} neighbours SEC(".maps");

/* Virtuals by address, port and protocol; those with ranges of ports by address and protocol. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct vip_key);
    __type(value, __u32);
    __uint(max_entries, 65536);
} vips SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct vip_key);
    __type(value, struct spans);
    __uint(max_entries, 4096);
} vip_spans SEC(".maps");
ARRAY(virtual_servers, struct virtual_server, 4096, 0);
ARRAY(members, struct member, 65536, 0);
/* Maglev tables: an array of members' numbers for each virtual that has any. */
struct ring {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_INNER_MAP);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 1);
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __type(key, __u32);
    __uint(max_entries, 4096);
    __array(values, struct ring);
} rings SEC(".maps");

/* Source NAT: rules in order, the addresses of pools, and how many flows each user has. */
ARRAY(nat_rules4, struct nat_rule4, NAT_RULES, 0);
ARRAY(nat_rules6, struct nat_rule6, NAT_RULES, 0);
ARRAY(nat_addrs4, struct addr4, 65536, 0);
ARRAY(nat_addrs6, struct addr6, 65536, 0);
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct addr6); /* IPv4 in the first word */
    __type(value, __u32);
    __uint(max_entries, 1);
} users SEC(".maps");

/* Ports of fragments' datagrams. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, struct fragment_key);
    __type(value, struct fragment);
    __uint(max_entries, 1);
} fragments SEC(".maps");

/* Sources whose packets are dropped: addresses, prefixes; and how many entries each of the four has, so that empty ones
 * cost nothing. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct addr4);
    __type(value, struct shun);
    __uint(max_entries, 1);
} shuns4 SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct addr6);
    __type(value, struct shun);
    __uint(max_entries, 1);
} shuns6 SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct shun_prefix4);
    __type(value, struct shun);
    __uint(max_entries, 1);
} shun_prefixes4 SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_LPM_TRIE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct shun_prefix6);
    __type(value, struct shun);
    __uint(max_entries, 1);
} shun_prefixes6 SEC(".maps");
ARRAY(shun_counts, __u64, 4, BPF_F_MMAPABLE);

/* Counters: by reason, by virtual, by member. */
#define COUNTERS 64 /* a power of two, for the verifier */
_Static_assert(REASON_COUNT <= COUNTERS, "every reason has a counter");
struct counters {
    __u64 n[COUNTERS];
};
PER_CPU(counters, struct counters, 1);
PER_CPU(virtual_tallies, struct tally, 4096);
PER_CPU(member_tallies, struct tally, 65536);

/* The programs that are gone on with: an earlier instance's while its table drains, a later one's after this has passed;
 * and this instance's own for what is of no flow in the table, so that the stack is theirs. */
#define CHAIN_EARLIER 0
#define CHAIN_LATER 1
#define CHAIN_NEW4 2
#define CHAIN_NEW6 3
int headgate_new4(struct xdp_md *ctx);
int headgate_new6(struct xdp_md *ctx);
struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 4);
    __uint(key_size, sizeof(__u32));
    __array(values, int(struct xdp_md *));
} chain SEC(".maps") = {
    .values =
        {
            [CHAIN_NEW4] = &headgate_new4,
            [CHAIN_NEW6] = &headgate_new6,
        },
};
/* Nothing but this is written to an earlier instance: not 0 once it is one. Its flows are served, no others. */
ARRAY(retired, __u32, 1, 0);

INLINE void count(enum reason reason)
{
    __u32 zero = 0;
    struct counters *all = bpf_map_lookup_elem(&counters, &zero);
    __u32 n = reason;

    /* The compiler knows how far an enumeration goes, the verifier does not. */
    if (!__builtin_constant_p(reason))
        barrier_var(n);
    if (all)
        all->n[n & (COUNTERS - 1)]++;
}

INLINE int counted(enum reason reason, int verdict)
{
    count(reason);
    return verdict;
}

/* Counts a packet of so many bytes, or the beginning of flows. */
INLINE void tally(void *map, __u32 key, __u32 bytes, __u32 flows)
{
    struct tally *t = bpf_map_lookup_elem(map, &key);

    if (t) {
        t->packets += !flows;
        t->bytes += bytes;
        t->flows += flows;
    }
}

/* Whether another instance has taken over, and this one only serves the flows it has. */
INLINE bool is_retired(void)
{
    __u32 zero = 0, *value = bpf_map_lookup_elem(&retired, &zero);

    return value && *value;
}
