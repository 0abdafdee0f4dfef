/* The connection table: slots hold flows, an index of buckets leads from the hash of a tuple to slots, two buckets a hash.
 * A flow that is not translated has one entry, a translated one a second for its replies. Per family.
 *
 * Order makes it safe without locks: a slot is written before an entry leads to it, and an entry is gone before its slot is
 * given back. Who has read a slot looks at the entry again: if it is the same, so was the slot. */
#ifndef TABLE_CONSTANTS
#define TABLE_CONSTANTS
#define ROOMY 4 /* free ways with which a first bucket is taken without a look at the second: most look-ups then need only it */
#define SWEEP 4 /* slots that are looked over for each that is taken */

/* The place of the first entry with the tag, or WAYS. */
INLINE __u32 scan(const struct bucket *bucket, __u32 tag)
{
#pragma clang loop unroll(full)
    for (__u32 i = 0; i < WAYS; i++)
        if ((__u32)(bucket->entry[i] >> 32) == tag)
            return i;
    return WAYS;
}

/* Which ways are free, a bit each. Without branches: the verifier would follow each of 256. */
INLINE __u32 free_ways(const struct bucket *bucket)
{
    __u64 taken = 0;

#pragma clang loop unroll(full)
    for (__u32 i = 0; i < WAYS; i++) {
        __u64 entry = bucket->entry[i], negative = -entry;

        barrier_var(negative);
        taken |= (entry | negative) >> 63 << i;
    }
    return (__u32)taken ^ 0xff;
}

/* How many of eight bits are set, and which is the lowest. */
INLINE __u32 bits(__u32 of)
{
    of = (of & 0x55) + (of >> 1 & 0x55);
    of = (of & 0x33) + (of >> 2 & 0x33);
    return (of & 0xf) + (of >> 4);
}

INLINE __u32 lowest(__u32 of)
{
    return bits((of & -of) - 1);
}

/* What of a flow changes as one: so that nobody changes a flow that is gone. */
union state_word {
    struct {
        __u8 proto, state, flags, way;
    };
    __u32 all;
};
#define STATE_WORD(flow) ((__u32 *)&(flow)->proto)
/* The same with the time of its last packet: so that nobody removes a flow that is another by now. */
#define TIME_AND_STATE(flow) ((__u64 *)&(flow)->seen)
#define NO_STATE (~(0xffull << 40))
#endif

/* What a look-up found. */
struct F(found)
{
    FLOW *flow;
    __u64 *entry;
    __u64 value; /* of the entry */
    int direction;
};

/* In which direction the packet goes in the flow, or -1 if it is not of it. */
INLINE int F(direction)(const FLOW *f, const PACKET *p)
{
    if (f->proto != p->proto)
        return -1;
    if (f->sport == p->sport && f->dport == p->dport && F(same)(&f->src, &p->src) && F(same)(&f->dst, &p->dst))
        return 0;
    if (f->ndport == p->sport && f->nsport == p->dport && F(same)(&f->ndst, &p->src) && F(same)(&f->nsrc, &p->dst))
        return 1;
    return -1;
}

INLINE bool F(expired)(const FLOW *f, __u32 now)
{
    __u8 state = f->state;
    __u32 allowed;

    if (state >= STATES)
        return true;
    allowed = cfg.timeout[state];
    if (unlikely(f->idle) && (state == STATE_ESTABLISHED || state == STATE_UDP_STREAM))
        allowed = f->idle * cfg.hz;
    /* A CPU may have written a later time than this one read. */
    return (__s32)(now - f->seen) >= (__s32)allowed;
}

INLINE FLOW *F(flow_at)(void *flows, __u32 slot)
{
    return bpf_map_lookup_elem(flows, &slot);
}

INLINE bool F(find_in)(void *flows, struct bucket *bucket, __u32 tag, const PACKET *p, struct F(found) * found)
{
    __u32 i = scan(bucket, tag);

    if (i == WAYS)
        return false;
    found->entry = &bucket->entry[i & (WAYS - 1)];
    found->value = READ_ONCE(*found->entry);
    found->flow = F(flow_at)(flows, (__u32)found->value);
    if (likely(found->flow)) {
        found->direction = F(direction)(found->flow, p);
        if (likely(found->direction >= 0))
            return true;
    }
    /* Another tuple with the same tag: so rare that the rest may be slow. */
#pragma clang loop unroll(disable)
    for (i++; i < WAYS; i++) {
        found->entry = &bucket->entry[i & (WAYS - 1)];
        found->value = READ_ONCE(*found->entry);
        if (found->value >> 32 != tag)
            continue;
        found->flow = F(flow_at)(flows, (__u32)found->value);
        if (!found->flow)
            continue;
        found->direction = F(direction)(found->flow, p);
        if (found->direction >= 0)
            return true;
    }
    return false;
}

/* The flow of a packet. Whether its time is out is left to the caller. */
INLINE bool F(find)(const PACKET *p, __u64 hash, struct F(found) * found)
{
    __u32 tag = tag_of(hash);
    __u32 at = bucket_of(hash, CFG(buckets));
    struct bucket *bucket = bpf_map_lookup_elem(&F(index), &at);

    if (bucket && F(find_in)(&F(flows), bucket, tag, p, found))
        return true;
    at = other_bucket_of(hash, CFG(buckets));
    bucket = bpf_map_lookup_elem(&F(index), &at);
    return bucket && F(find_in)(&F(flows), bucket, tag, p, found);
}

/* Whether a packet of the tuple would find a flow that lives. */
INLINE bool F(taken)(const PACKET *reply, __u64 hash)
{
    struct F(found) found;

    return F(find)(reply, hash, &found) && !F(expired)(found.flow, reply->now);
}

/* Takes the entries with this value out of the buckets of a hash. */
INLINE void F(unlink)(__u64 hash, __u32 slot)
{
    __u64 value = (__u64)tag_of(hash) << 32 | slot;
    __u32 at = bucket_of(hash, CFG(buckets));

#pragma clang loop unroll(full)
    for (int half = 0; half < 2; half++) {
        struct bucket *bucket = bpf_map_lookup_elem(&F(index), &at);

        if (bucket) {
#pragma clang loop unroll(disable)
            for (int i = 0; i < WAYS; i++)
                if (bucket->entry[i] == value)
                    __sync_val_compare_and_swap(&bucket->entry[i], value, 0);
        }
        at = other_bucket_of(hash, CFG(buckets));
    }
}

/* A user has one flow fewer. */
INLINE void F(forget_user)(const FLOW *f)
{
    struct addr6 user;
    __u32 *flows;

    F(widen)(user.w, &f->src);
    flows = bpf_map_lookup_elem(&users, &user);
    /* At 0 the entry stays: another CPU may be about to count on it. User space removes those. */
    if (flows && READ_ONCE(*flows))
        __sync_fetch_and_add(flows, -1);
}

/* Removes a flow, unless another CPU does; `late`: only if its time is out. */
INLINE int F(take_out)(__u32 slot, __u32 now, bool late)
{
    FLOW *f = F(flow_at)(&F(flows), slot);
    __u64 word;

    if (!f)
        return 0;
    word = READ_ONCE(*TIME_AND_STATE(f));
    if (!f->state || (late && !F(expired)(f, now)))
        return 0;
    if (__sync_val_compare_and_swap(TIME_AND_STATE(f), word, word & NO_STATE) != word)
        return 0;
    F(unlink)(F(hash)(&f->src, &f->dst, f->sport, f->dport, f->proto), slot);
    if (f->way == WAY_TRANSLATE)
        F(unlink)(F(hash)(&f->nsrc, &f->ndst, f->nsport, f->ndport, f->proto), slot);
    if (f->flags & FLOW_COUNTED)
        F(forget_user)(f);
    F(give_slot)(slot);
    count(FLOW_EXPIRED);
    return 1;
}

/* Removes a flow whose time is out. */
STAGE int F(remove_late)(__u32 slot, __u32 now)
{
    return F(take_out)(slot, now, true);
}

/* Removes a flow, whatever its time. */
STAGE int F(remove)(__u32 slot)
{
    return F(take_out)(slot, 0, false);
}

/* Looks over the next few slots for flows whose time is out: so that slots come free without anybody asking for the
 * flows that held them. */
STAGE int F(sweep)(__u32 now, __u32 slots)
{
    __u32 family = FAMILY_INDEX;
    struct slot_cache *cache = bpf_map_lookup_elem(&slot_caches, &family);
    struct slot_state *state = bpf_map_lookup_elem(&slot_states, &family);
    int removed = 0;

    if (!cache || !state)
        return 0;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < 64; i++) {
        FLOW *f;
        __u32 slot;

        if (i >= slots)
            break;
        if (cache->hand == cache->hand_end) {
            __u32 used = READ_ONCE(state->fresh) < CFG(slots) ? READ_ONCE(state->fresh) : CFG(slots);
            __u32 hand = __sync_fetch_and_add(&state->hand, MAGAZINE);

            if (hand >= used) {
                hand = 0;
                WRITE_ONCE(state->hand, MAGAZINE);
            }
            cache->hand = hand;
            cache->hand_end = hand + MAGAZINE < used ? hand + MAGAZINE : used;
            if (cache->hand >= cache->hand_end)
                break;
        }
        slot = cache->hand++;
        f = F(flow_at)(&F(flows), slot);
        if (f && f->state && F(expired)(f, now))
            removed += F(remove_late)(slot, now);
    }
    return removed;
}

/* Enters a slot under a hash: in the first of its buckets while that is roomy, else in the emptier; what has expired there gives way. 1 unless there is no room. */
STAGE int F(link)(__u64 hash, __u32 slot, __u32 now)
{
    __u64 value = (__u64)tag_of(hash) << 32 | slot;
    __u32 at = bucket_of(hash, CFG(buckets)), other = other_bucket_of(hash, CFG(buckets));
    struct bucket *a = bpf_map_lookup_elem(&F(index), &at), *b = bpf_map_lookup_elem(&F(index), &other);

    if (!a || !b)
        return 0;
#pragma clang loop unroll(disable)
    for (int tries = 0; tries < 4; tries++) {
        __u32 free = free_ways(a), free_b = free_ways(b), way;
        struct bucket *into = a;

        if (bits(free) < ROOMY && bits(free_b) > bits(free)) {
            into = b;
            free = free_b;
        }
        if (free) {
            way = lowest(free) & (WAYS - 1);
            if (__sync_val_compare_and_swap(&into->entry[way], 0, value) == 0)
                return 1;
            continue;
        }
        if (tries & 1)
            into = b;
#pragma clang loop unroll(disable)
        for (__u32 i = 0; i < WAYS; i++) {
            __u32 old = into->entry[i];
            FLOW *f = F(flow_at)(&F(flows), old);

            if (f && F(expired)(f, now) && F(remove_late)(old, now))
                break;
        }
    }
    return 0;
}
