/* Flows of an earlier instance's table: user space hands them over as the bytes of a packet, record after record. Per
 * family. */

#ifndef IMPORTS
#define IMPORTS 64 /* records at most */
#endif

/* Enters the drafted flow, unless it is there already. Whether it is afterwards, or has no time left. */
STAGE int F(import_draft)(__u32 now)
{
    struct F(work) *work = F(work)();
    struct F(found) found;
    __u64 hash, translated;
    __u32 slot;
    FLOW *draft, *f;
    PACKET *p;

    if (!work)
        return 0;
    draft = &work->draft;
    p = &work->packet;
    /* Nor has a free slot any time. */
    if (F(expired)(draft, now))
        return 1;
    p->src = draft->src;
    p->dst = draft->dst;
    p->sport = draft->sport;
    p->dport = draft->dport;
    p->proto = draft->proto;
    p->now = now;
    hash = F(hash)(&p->src, &p->dst, p->sport, p->dport, p->proto);
    if (F(find)(p, hash, &found) && !F(expired)(found.flow, now))
        return 1;
    /* Another flow was given the tuple of its replies meanwhile: it stays where it is. */
    if (draft->way == WAY_TRANSLATE && F(reply_taken)(draft, now, NO_HALF))
        return 0;
    /* Ports are numbered anew, and nobody may find its time out before it is entered. */
    __builtin_memset(draft->hops, 0, sizeof(draft->hops));
    draft->seen = now;
    slot = F(take_slot)();
    f = slot == NO_SLOT ? NULL : F(flow_at)(&F(flows), slot);
    if (!f)
        return 0;
    if (draft->flags & FLOW_COUNTED) {
        draft->flags &= ~FLOW_COUNTED;
        F(count_user)(draft, 0x7fffffff);
    }
    *f = *draft;
    if (!F(link)(hash, slot, now)) {
        if (f->flags & FLOW_COUNTED)
            F(forget_user)(f);
        f->state = STATE_FREE;
        F(give_slot)(slot);
        return 0;
    }
    if (f->way == WAY_TRANSLATE) {
        translated = F(hash)(&f->nsrc, &f->ndst, f->nsport, f->ndport, f->proto);
        if (!F(link)(translated, slot, now)) {
            F(remove)(slot);
            return 0;
        }
    }
    return 1;
}

/* Enters the records in the packet, and frees those in it that need not be handed over again. How many these are. */
INLINE int F(import)(struct xdp_md *ctx)
{
    struct F(work) *work = F(work)();
    __u32 now = jiffies_now();
    int done = 0;

    if (!work)
        return 0;
#pragma clang loop unroll(disable)
    for (int i = 0; i < IMPORTS; i++) {
        FLOW *records = (void *)(long)ctx->data, *record;

        record = records + i;
        if ((void *)(record + 1) > (void *)(long)ctx->data_end)
            break;
        work->draft = *record;
        if (F(import_draft)(now)) {
            record->state = STATE_FREE;
            done++;
        }
    }
    return done;
}
