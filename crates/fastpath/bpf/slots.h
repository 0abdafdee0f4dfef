/* Which slots of the flow table are free. Each CPU keeps two magazines of free slots and trades full ones through a depot
 * that all share, so that CPUs that create flows and CPUs that remove them don't contend. Free slots are chained through
 * their first word; the first slot of a magazine in the depot holds the next magazine in its second word. Per family. */
#ifndef SLOT_CONSTANTS
#define SLOT_CONSTANTS
#define MAGAZINE 64
#define NO_SLOT 0xffffffff

struct free_slot {
    __u32 next;     /* in the magazine */
    __u32 magazine; /* the next in the depot, plus one */
};
#endif

INLINE struct free_slot *F(free_slot)(__u32 slot)
{
    return bpf_map_lookup_elem(&F(flows), &slot);
}

/* Takes a full magazine from the depot. */
INLINE bool F(from_depot)(struct slot_state *state, struct magazine *to)
{
    for (int i = 0; i < 8; i++) {
        __u64 head = READ_ONCE(state->depot);
        struct free_slot *first;
        __u32 slot = (__u32)head - 1;

        if (!(__u32)head)
            return false;
        first = F(free_slot)(slot);
        if (!first)
            return false;
        /* The count of changes in the upper half makes a head that came back look different. */
        if (__sync_val_compare_and_swap(&state->depot, head, ((head >> 32) + 1) << 32 | READ_ONCE(first->magazine)) ==
            head) {
            to->head = slot;
            to->count = MAGAZINE;
            return true;
        }
    }
    return false;
}

INLINE bool F(to_depot)(struct slot_state *state, const struct magazine *full)
{
    struct free_slot *first = F(free_slot)(full->head);

    if (!first)
        return false;
    for (int i = 0; i < 8; i++) {
        __u64 head = READ_ONCE(state->depot);

        WRITE_ONCE(first->magazine, (__u32)head);
        if (__sync_val_compare_and_swap(&state->depot, head, ((head >> 32) + 1) << 32 | (full->head + 1)) == head)
            return true;
    }
    return false;
}

/* A free slot, or NO_SLOT. */
INLINE __u32 F(take_slot)(void)
{
    __u32 family = FAMILY_INDEX;
    struct slot_cache *cache = bpf_map_lookup_elem(&slot_caches, &family);
    struct slot_state *state = bpf_map_lookup_elem(&slot_states, &family);
    struct free_slot *free;
    __u32 slot;

    if (!cache || !state)
        return NO_SLOT;
    if (!cache->loaded.count) {
        if (cache->spare.count) {
            cache->loaded = cache->spare;
            cache->spare.count = 0;
        } else if (!F(from_depot)(state, &cache->loaded)) {
            if (cache->next == cache->end) {
                __u32 first;

                /* The sum must not run away once all slots have been used. */
                if (READ_ONCE(state->fresh) >= CFG(slots))
                    return NO_SLOT;
                first = __sync_fetch_and_add(&state->fresh, MAGAZINE);
                if (first >= CFG(slots))
                    return NO_SLOT;
                cache->next = first;
                cache->end = first + MAGAZINE < CFG(slots) ? first + MAGAZINE : CFG(slots);
            }
            return cache->next++;
        }
    }
    slot = cache->loaded.head;
    free = F(free_slot)(slot);
    if (!free)
        return NO_SLOT;
    cache->loaded.head = free->next;
    cache->loaded.count--;
    return slot;
}

/* Gives a slot back. No entry of the index may lead to it any more. */
INLINE void F(give_slot)(__u32 slot)
{
    __u32 family = FAMILY_INDEX;
    struct slot_cache *cache = bpf_map_lookup_elem(&slot_caches, &family);
    struct slot_state *state = bpf_map_lookup_elem(&slot_states, &family);
    struct free_slot *free = F(free_slot)(slot);

    if (!cache || !state || !free)
        return;
    if (cache->loaded.count >= MAGAZINE) {
        /* A depot that can't be reached after so many tries loses a magazine until the table is made anew; it has not
         * been seen to happen. */
        if (cache->spare.count >= MAGAZINE)
            F(to_depot)(state, &cache->spare);
        cache->spare = cache->loaded;
        cache->loaded.count = 0;
    }
    free->next = cache->loaded.head;
    cache->loaded.head = slot;
    cache->loaded.count++;
}
