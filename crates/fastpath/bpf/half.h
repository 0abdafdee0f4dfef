/* Flows that were not answered yet. A bucket holds eight entries, the slot of a flow is the place of its entry; when a
 * bucket is full, its oldest entry gives way: so a flood of beginnings can only push out beginnings. Per family. */
#ifndef HALF_CONSTANTS
#define HALF_CONSTANTS
/* An entry is tag << 32 | age << 24 | slot; age is jiffies >> HALF_AGE_SHIFT. */
#define HALF_AGE_SHIFT 5
#define HALF_SLOT 0xffffff
#define HALF_BUSY (0xffffffffull << 32) /* somebody writes the slot */

INLINE __u32 half_age(__u32 now, __u64 entry)
{
    return ((now >> HALF_AGE_SHIFT) - (__u32)(entry >> 24)) & 0xff;
}
#endif

INLINE __u32 F(half_bucket)(__u64 hash)
{
    return (hash >> 32) & cfg.half_mask;
}

/* A tag that HALF_BUSY is not. */
INLINE __u32 F(half_tag)(__u64 hash)
{
    return tag_of(hash) & 0xfffffffe;
}

/* The half-open flow of a packet. */
INLINE bool F(half_find)(const PACKET *p, __u64 hash, struct F(found) * found)
{
    __u32 at = F(half_bucket)(hash), tag = F(half_tag)(hash);
    struct bucket *bucket = bpf_map_lookup_elem(&F(half_index), &at);

    if (!bucket)
        return false;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < WAYS; i++) {
        found->entry = &bucket->entry[i];
        found->value = READ_ONCE(*found->entry);
        if (found->value >> 32 != tag)
            continue;
        found->flow = F(flow_at)(&F(half_flows), found->value & HALF_SLOT);
        if (!found->flow)
            continue;
        found->direction = F(direction)(found->flow, p);
        if (found->direction >= 0 && !F(expired)(found->flow, p->now))
            return true;
    }
    return false;
}

/* Claims a way of the bucket of a hash: a free one, else that of an entry whose flow is gone, else the oldest. Its place,
 * or null when others were faster. */
INLINE __u64 *F(half_claim)(__u64 hash, __u32 now, __u32 *slot)
{
    __u32 at = F(half_bucket)(hash), way = 0, oldest = 0;
    struct bucket *bucket = bpf_map_lookup_elem(&F(half_index), &at);
    __u64 old;

    if (!bucket)
        return NULL;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < WAYS; i++) {
        __u64 entry = READ_ONCE(bucket->entry[i]);

        if (!entry) {
            way = i;
            break;
        }
        if (entry != HALF_BUSY && half_age(now, entry) >= oldest) {
            oldest = half_age(now, entry);
            way = i;
        }
    }
    way &= WAYS - 1;
    old = READ_ONCE(bucket->entry[way]);
    if (old == HALF_BUSY || __sync_val_compare_and_swap(&bucket->entry[way], old, HALF_BUSY) != old)
        return NULL;
    if (old) {
        __u32 previous = old & HALF_SLOT;
        FLOW *f = F(flow_at)(&F(half_flows), previous);

        /* The entry of a reply tuple may outlive its flow. */
        if (f && previous == at * WAYS + way && f->state) {
            if (!F(expired)(f, now))
                count(FLOW_EVICTED);
            if (f->flags & FLOW_COUNTED)
                F(forget_user)(f);
            f->state = STATE_FREE;
        }
    }
    *slot = at * WAYS + way;
    return &bucket->entry[way];
}

INLINE __u64 F(half_entry)(__u64 hash, __u32 slot, __u32 now)
{
    return (__u64)F(half_tag)(hash) << 32 | ((now >> HALF_AGE_SHIFT) & 0xff) << 24 | slot;
}

/* Puts a new flow among the half-open ones, under its original tuple. Its slot, or null when there was no room. */
INLINE FLOW *F(half_insert)(const FLOW *flow, __u64 hash, __u32 *slot)
{
    __u64 *entry = F(half_claim)(hash, flow->created, slot);
    FLOW *f;

    if (!entry)
        return NULL;
    f = F(flow_at)(&F(half_flows), *slot);
    if (!f) {
        WRITE_ONCE(*entry, 0);
        return NULL;
    }
    *f = *flow;
    WRITE_ONCE(*entry, F(half_entry)(hash, *slot, flow->created));
    return f;
}

/* Makes the replies of a half-open flow find it. */
INLINE bool F(half_link)(__u64 hash, __u32 slot, __u32 now)
{
    __u32 unused;
    __u64 *entry = F(half_claim)(hash, now, &unused);

    if (!entry)
        return false;
    WRITE_ONCE(*entry, F(half_entry)(hash, slot, now));
    return true;
}

/* Moves a flow that was answered to the table. The flow where it now is: where the table has no room, that is where it
 * was. */
STAGE int F(promote)(__u32 half_slot, __u32 now)
{
    FLOW *half = F(flow_at)(&F(half_flows), half_slot & HALF_SLOT), *f;
    __u32 at = half_slot / WAYS, slot;
    struct bucket *bucket = bpf_map_lookup_elem(&F(half_index), &at);
    __u64 hash, *entry, value;

    if (!half || !bucket || !half->state)
        return -1;
    entry = &bucket->entry[half_slot & (WAYS - 1)];
    value = READ_ONCE(*entry);
    hash = F(hash)(&half->src, &half->dst, half->sport, half->dport, half->proto);
    /* Only one moves it, and only while it is this flow's. */
    if (value >> 32 != F(half_tag)(hash) || (value & HALF_SLOT) != half_slot ||
        __sync_val_compare_and_swap(entry, value, HALF_BUSY) != value)
        return -1;
    slot = F(take_slot)();
    if (F(sweep)(now, slot == NO_SLOT ? 64 : SWEEP) && slot == NO_SLOT)
        slot = F(take_slot)();
    f = slot == NO_SLOT ? NULL : F(flow_at)(&F(flows), slot);
    if (!f)
        goto no_room;
    *f = *half;
    if (!F(link)(hash, slot, now)) {
        f->state = STATE_FREE;
        F(give_slot)(slot);
        goto no_room;
    }
    if (half->way == WAY_TRANSLATE) {
        hash = F(hash)(&half->nsrc, &half->ndst, half->nsport, half->ndport, half->proto);
        if (!F(link)(hash, slot, now)) {
            f->flags &= ~FLOW_COUNTED;
            F(remove)(slot);
            goto no_room;
        }
    }
    half->state = STATE_FREE;
    WRITE_ONCE(*entry, 0);
    count(FLOW_PROMOTED);
    return slot;
no_room:
    WRITE_ONCE(*entry, value);
    count(FLOW_NOT_PROMOTED);
    return -1;
}
