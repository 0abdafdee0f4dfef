/* The beginning of a flow: its draft gets a place among the half-open flows. Per family. */
#ifndef ENTER_CONSTANTS
#define ENTER_CONSTANTS
#define ENTER_TRIES 4 /* sources that are tried when other CPUs take the same at the same time */

/* Beside slots. */
#define NO_ROOM (-1)
#define REFUSED (-2)
#endif

/* Enters the tuple of the flow's replies. When two CPUs enter the same one, at least one of them sees the other, and takes
 * another port; so does a flow whose client keeps its address, if its replies would be another flow's. 0, or the reason to
 * drop it. */
STAGE int F(enter_reply)(FLOW *draft, __u32 slot)
{
    FLOW *f = F(flow_at)(&F(half_flows), slot);
    struct F(pick) *pick = F(pick)();
    int reason;

    if (!draft || !f || !pick)
        return DROP_INTERNAL;
    if (F(same)(&draft->nsrc, &draft->src)) {
        F(prepare)(pick, draft, NULL);
        pick->own = draft->src;
    }
#pragma clang loop unroll(disable)
    for (int i = 0; i < ENTER_TRIES; i++) {
        *f = *draft;
        if (!F(half_link)(F(hash)(&f->nsrc, &f->ndst, f->nsport, f->ndport, f->proto), slot, f->created))
            return DROP_TABLE_FULL;
        if (!F(reply_taken)(draft, draft->created, slot))
            return 0;
        F(half_unlink)(f, slot);
        reason = F(next_source)(draft);
        if (reason)
            return reason;
    }
    return DROP_NO_PORT;
}

/* Gives the drafted flow its place, under its original tuple and that of its replies. 0, or the reason why it has none. */
INLINE int F(enter_tuples)(FLOW *draft, __u32 *slot)
{
    __u64 hash = F(hash)(&draft->src, &draft->dst, draft->sport, draft->dport, draft->proto), *entry, value;
    int place = F(half_claim)(hash, draft->created), reason = 0;
    FLOW *f;

    if (place < 0)
        return DROP_TABLE_FULL;
    *slot = place;
    entry = F(half_place)(place);
    f = F(flow_at)(&F(half_flows), place);
    if (!entry || !f)
        return DROP_INTERNAL;
    if (draft->way == WAY_TRANSLATE)
        reason = F(enter_reply)(draft, place);
    else
        *f = *draft;
    if (reason)
        f->state = STATE_FREE;
    /* No read that follows comes before the entry is there. */
    __sync_lock_test_and_set(entry, reason ? 0 : F(half_entry)(hash, place, draft->created));
    if (draft->way != WAY_TRANSLATE || reason || F(half_reply)(f, place, &value))
        return reason;
    /* Its replies' entry has given way to another meanwhile, when nobody could end the flow. */
    if (F(half_end)(place))
        count(FLOW_EVICTED);
    draft->flags &= ~FLOW_COUNTED;
    return DROP_TABLE_FULL;
}

/* Enters the drafted flow among those that were not answered. Its slot there; NO_ROOM, where it goes on without memory;
 * or REFUSED, where it can't. */
STAGE int F(enter)(const PACKET *p)
{
    struct F(work) *work = F(work)();
    FLOW *draft;
    __u32 slot = 0;
    int reason;

    if (!p || !work)
        return REFUSED;
    draft = &work->draft;
    if (draft->flags & FLOW_COUNTED)
        F(half_sweep)(p->now, 1);
    reason = F(enter_tuples)(draft, &slot);
    if (reason && draft->way == WAY_TRANSLATE) {
        F(withdraw)(draft);
        count(reason);
        return REFUSED;
    }
    count(FLOW_CREATED);
    if (draft->virtual_server) {
        tally(&virtual_tallies, draft->virtual_server, 0, 1);
        tally(&member_tallies, draft->member, 0, 1);
    }
    return reason ? NO_ROOM : (int)slot;
}
