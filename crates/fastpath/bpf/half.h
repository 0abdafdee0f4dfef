/* Flows that were not answered yet. A bucket holds eight entries, the slot of a flow is the place of its entry; when a
 * bucket is full, its oldest entry gives way: so a flood of beginnings can only push out beginnings. Per family. */
#ifndef HALF_CONSTANTS
#define HALF_CONSTANTS
/* An entry is tag << 32 | age << 24 | slot; age is jiffies >> HALF_AGE_SHIFT. At any rate of jiffies up to 1000 a second its
 * 256 units are more than a minute: an entry that is older than they tell would look new, and outlive newer ones. */
#define HALF_AGE_SHIFT (cfg.hz <= 250 ? 6 : 8)
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

/* The entry at a place, which is the number of its slot. */
INLINE __u64 *F(half_place)(__u32 place)
{
    __u32 at = place / WAYS;
    struct bucket *bucket = bpf_map_lookup_elem(&F(half_index), &at);

    return bucket ? &bucket->entry[place & (WAYS - 1)] : NULL;
}

/* The entry of a flow's replies, or null if there is none any more. */
INLINE __u64 *F(half_reply)(const FLOW *f, __u32 slot, __u64 *value)
{
    __u64 hash = F(hash)(&f->nsrc, &f->ndst, f->nsport, f->ndport, f->proto);
    __u32 at = F(half_bucket)(hash), tag = F(half_tag)(hash);
    struct bucket *bucket = bpf_map_lookup_elem(&F(half_index), &at);

    if (!bucket)
        return NULL;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < WAYS; i++) {
        *value = READ_ONCE(bucket->entry[i]);
        if (*value >> 32 == tag && (*value & HALF_SLOT) == slot && slot != at * WAYS + i)
            return &bucket->entry[i];
    }
    return NULL;
}

/* Takes the entry of a flow's replies out. */
INLINE void F(half_unlink)(const FLOW *f, __u32 slot)
{
    __u64 value, *entry = F(half_reply)(f, slot, &value);

    if (entry)
        __sync_val_compare_and_swap(entry, value, 0);
}

/* The entry of the flow in a slot, made busy: who has it may move the flow or end it. Null if that is somebody else. */
INLINE __u64 *F(half_take)(const FLOW *f, __u32 slot, __u64 *value)
{
    __u64 *entry = F(half_place)(slot), hash;

    if (!entry || !f->state)
        return NULL;
    hash = F(hash)(&f->src, &f->dst, f->sport, f->dport, f->proto);
    *value = READ_ONCE(*entry);
    if (*value >> 32 != F(half_tag)(hash) || (*value & HALF_SLOT) != slot ||
        __sync_val_compare_and_swap(entry, *value, HALF_BUSY) != *value)
        return NULL;
    return entry;
}

/* Frees the slot of a flow whose entry the caller has made busy. */
INLINE void F(half_free)(FLOW *f)
{
    if (f->flags & FLOW_COUNTED)
        F(forget_user)(f);
    f->state = STATE_FREE;
}

/* Ends a flow, unless another CPU does. */
STAGE int F(half_end)(__u32 slot)
{
    FLOW *f = F(flow_at)(&F(half_flows), slot & HALF_SLOT);
    __u64 value, *entry = f ? F(half_take)(f, slot & HALF_SLOT, &value) : NULL;

    if (!entry)
        return 0;
    F(half_free)(f);
    if (f->way == WAY_TRANSLATE)
        F(half_unlink)(f, slot & HALF_SLOT);
    WRITE_ONCE(*entry, 0);
    return 1;
}

/* Looks over a few buckets for flows whose time is out: so that they don't count against their users. */
STAGE int F(half_sweep)(__u32 now, __u32 buckets)
{
    __u32 family = FAMILY_INDEX, *hand = bpf_map_lookup_elem(&half_hands, &family);
    int removed = 0;

    if (!hand)
        return 0;
#pragma clang loop unroll(disable)
    for (__u32 n = 0; n < 64; n++) {
        __u32 at;

        if (n >= buckets)
            break;
        at = (*hand)++ & cfg.half_mask;
#pragma clang loop unroll(disable)
        for (__u32 i = 0; i < WAYS; i++) {
            FLOW *f = F(flow_at)(&F(half_flows), at * WAYS + i);

            if (f && f->state && F(expired)(f, now))
                removed += F(half_end)(at * WAYS + i);
        }
    }
    return removed;
}

/* Makes a way of the bucket of a hash busy: a free one, else that of the oldest entry, whose flow ends. Its place, or -1
 * when others were faster. */
STAGE int F(half_claim)(__u64 hash, __u32 now)
{
    __u32 at = F(half_bucket)(hash), way = 0, oldest = 0;
    struct bucket *bucket = bpf_map_lookup_elem(&F(half_index), &at);
    __u64 old;

    if (!bucket)
        return -1;
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
        return -1;
    if (old) {
        __u32 previous = old & HALF_SLOT;
        FLOW *f = F(flow_at)(&F(half_flows), previous);

        if (f && f->state) {
            bool lives = !F(expired)(f, now);

            if (previous == at * WAYS + way)
                F(half_free)(f);
            /* A flow that its replies no longer find has no claim on their tuple. The entry may also have outlived its
             * flow. */
            else if (F(half_tag)(F(hash)(&f->nsrc, &f->ndst, f->nsport, f->ndport, f->proto)) != old >> 32 ||
                     !F(half_end)(previous))
                lives = false;
            if (lives)
                count(FLOW_EVICTED);
        }
    }
    return at * WAYS + way;
}

INLINE __u64 F(half_entry)(__u64 hash, __u32 slot, __u32 now)
{
    return (__u64)F(half_tag)(hash) << 32 | ((now >> HALF_AGE_SHIFT) & 0xff) << 24 | slot;
}

/* Makes the replies of a half-open flow find it. Where others do the same for the same tuple, each sees the other
 * afterwards, or one of them does: no read that follows comes before the entry is there. */
STAGE int F(half_link)(__u64 hash, __u32 slot, __u32 now)
{
    int place = F(half_claim)(hash, now);
    __u64 *entry = place < 0 ? NULL : F(half_place)(place);

    if (!entry)
        return false;
    __sync_lock_test_and_set(entry, F(half_entry)(hash, slot, now));
    return true;
}

/* Moves a flow that was answered to the table. The flow where it now is: where the table has no room, that is where it
 * was. */
STAGE int F(promote)(__u32 half_slot, __u32 now)
{
    FLOW *half = F(flow_at)(&F(half_flows), half_slot & HALF_SLOT), *f;
    __u64 hash, value, *entry = half ? F(half_take)(half, half_slot & HALF_SLOT, &value) : NULL;
    __u32 slot;

    /* Only one moves it, and only while it is there. */
    if (!entry)
        return -1;
    slot = F(take_slot)();
    if (F(sweep)(now, slot == NO_SLOT ? 64 : SWEEP) && slot == NO_SLOT)
        slot = F(take_slot)();
    f = slot == NO_SLOT ? NULL : F(flow_at)(&F(flows), slot);
    if (!f)
        goto no_room;
    /* Nobody may find its time out before it is entered. */
    half->seen = now;
    *f = *half;
    hash = F(hash)(&half->src, &half->dst, half->sport, half->dport, half->proto);
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
    if (half->way == WAY_TRANSLATE)
        F(half_unlink)(half, half_slot & HALF_SLOT);
    WRITE_ONCE(*entry, 0);
    count(FLOW_PROMOTED);
    return slot;
no_room:
    WRITE_ONCE(*entry, value);
    count(FLOW_NOT_PROMOTED);
    return -1;
}
