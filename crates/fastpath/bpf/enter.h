/* The beginning of a flow: its draft gets a place among the half-open flows, and its first packet is sent. Per family. */
#ifndef ENTER_CONSTANTS
#define ENTER_CONSTANTS
#define ENTER_TRIES 4 /* sources that are tried when other CPUs take the same at the same time */
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

/* Enters a drafted flow under its original tuple and that of its replies. 0, or the reason for which it has no place. */
INLINE int F(enter_tuples)(FLOW *draft, FLOW **entered)
{
    __u64 hash = F(hash)(&draft->src, &draft->dst, draft->sport, draft->dport, draft->proto);
    __u32 slot;
    __u64 *entry = F(half_claim)(hash, draft->created, &slot);
    FLOW *f = entry ? F(flow_at)(&F(half_flows), slot) : NULL;
    int reason = 0;

    if (!entry)
        return DROP_TABLE_FULL;
    if (!f)
        reason = DROP_INTERNAL;
    else if (draft->way == WAY_TRANSLATE)
        reason = F(enter_reply)(draft, slot);
    else
        *f = *draft;
    if (reason) {
        if (f)
            f->state = STATE_FREE;
        WRITE_ONCE(*entry, 0);
        return reason;
    }
    *entered = f;
    WRITE_ONCE(*entry, F(half_entry)(hash, slot, draft->created));
    return 0;
}

/* Enters a drafted flow, and sends its first packet. */
INLINE int F(enter)(struct xdp_md *ctx, PACKET *p, FLOW *draft)
{
    /* A flow that needs no memory goes on without. */
    FLOW *f = draft;
    int reason = F(enter_tuples)(draft, &f);

    if (draft->flags & FLOW_COUNTED)
        F(half_sweep)(p->now, 1);
    if (reason && draft->way == WAY_TRANSLATE) {
        F(withdraw)(draft);
        return counted(reason, XDP_DROP);
    }
    count(FLOW_CREATED);
    if (draft->virtual_server) {
        tally(&virtual_tallies, draft->virtual_server, 0, 1);
        tally(&member_tallies, draft->member, 0, 1);
    }
    return F(serve_apart)(ctx, p, f, 0);
}
