/* The stages in their order, for one family. */
#include "family.h"

#include "packet.h"
#include "hash.h"
#include "shun.h"
#include "slots.h"
#include "table.h"
#include "half.h"
#include "translate.h"
#include "work.h"
#include "route.h"
#include "address.h"
#include "answer.h"
#include "tunnel.h"
#include "serve.h"
#include "allocate.h"
#include "source_nat.h"
#include "balance.h"
#include "fragment.h"
#include "enter.h"
#include "begin.h"
#include "icmp.h"
#include "import.h"

/* Serves a packet of a flow that was not answered yet. GO_ON if there is none. */
STAGE int F(serve_half)(struct xdp_md *ctx, PACKET *p, __u64 hash)
{
    struct F(found) found;
    bool confirmed;

    if (!p)
        return counted(DROP_INTERNAL, XDP_DROP);
    count(TABLE_MISS);
    if (!F(half_find)(p, hash, &found))
        return GO_ON;
    /* Answered; or, where answers don't pass here, the client has gone on after its beginning. */
    confirmed = found.direction ||
                (found.flow->way >= WAY_DIRECT && !(p->proto == IPPROTO_TCP && p->tcp & TCP_SYN));
    if (confirmed && !(p->tcp & TCP_RST)) {
        int slot = F(promote)(found.value & HALF_SLOT, p->now);
        FLOW *f = slot < 0 ? NULL : F(flow_at)(&F(flows), slot);

        if (f) {
            int verdict = F(serve_apart)(ctx, p, f, found.direction);

            if (verdict != MOVE)
                return verdict;
            F(remove)(slot);
            goto moved;
        }
    }
    int verdict = F(serve_apart)(ctx, p, found.flow, found.direction);

    if (verdict != MOVE)
        return verdict;
    F(half_end)(found.value & HALF_SLOT);
moved:
    p->kind |= KIND_MOVED;
    count(FLOW_MOVED);
    return GO_ON;
}

/* Whether there is anything to keep flows for. */
INLINE bool F(keeps_flows)(void)
{
    return cfg.forward == FORWARD_TRACKED || cfg.virtuals || CFG(nat_rules);
}

/* Reads the packet's headers into this CPU's memory. GO_ON, or what becomes of it. */
INLINE int F(read)(struct xdp_md *ctx, PACKET *p, bool resumed)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    int verdict;

    p->now = jiffies_now();
    p->fragment = 0;
    p->icmp = p->icmp_code = 0;
    verdict = F(parse_ip)(ctx, data, end, p, resumed);
    if (unlikely(verdict != GO_ON))
        return verdict;
    verdict = F(parse_transport)(data, end, p);
    if (unlikely(verdict != GO_ON))
        return verdict;
    if (unlikely(p->kind & (KIND_FIRST | KIND_LATER)) && F(keeps_flows)())
        F(fragment)(p);
    return GO_ON;
}

/* What every packet passes. */
INLINE int F(path)(struct xdp_md *ctx)
{
    struct F(work) *work = F(work)();
    struct F(found) found;
    PACKET *p;
    int verdict;

    if (!work)
        return counted(DROP_INTERNAL, XDP_DROP);
    p = &work->packet;
    verdict = F(read)(ctx, p, false);
    if (unlikely(verdict != GO_ON))
        return verdict;
    /* Filters against floods have their place here. */
    if (!F(keeps_flows)())
        return F(forward)(ctx, p);
    work->hash = F(hash)(&p->src, &p->dst, p->sport, p->dport, p->proto);
    /* Errors are of the flow that they quote, not of one between their ends. */
    if (likely(!(p->kind & (KIND_ERROR | KIND_CONTROL))) && likely(F(find)(p, work->hash, &found))) {
        if (unlikely(F(expired)(found.flow, p->now))) {
            F(remove_late)((__u32)found.value, p->now);
        } else {
            verdict = F(serve)(ctx, p, &work->leaving, found.flow, found.entry, found.value, found.direction);
            if (likely(verdict > MOVE))
                return verdict;
            if (verdict == MOVE) {
                F(remove)((__u32)found.value);
                p->kind |= KIND_MOVED;
                count(FLOW_MOVED);
            }
        }
    }
    bpf_tail_call(ctx, &chain, F(CHAIN_NEW));
    return counted(DROP_INTERNAL, XDP_DROP);
}

/* What is of no flow in the table. */
INLINE int F(new)(struct xdp_md *ctx)
{
    struct F(work) *work = F(work)();
    PACKET *p;
    int verdict;

    if (!work)
        return counted(DROP_INTERNAL, XDP_DROP);
    p = &work->packet;
    /* What is of known flows was for us when they began. */
    if (unlikely(!for_us(ctx)))
        return counted(PASS_OTHER_HOST, XDP_PASS);
    if (unlikely(p->kind & KIND_ERROR)) {
        verdict = F(icmp_error)(ctx, p);
        if (verdict != GO_ON)
            return verdict;
    }
    if (likely(!(p->kind & (KIND_ERROR | KIND_CONTROL)))) {
        verdict = F(serve_half)(ctx, p, work->hash);
        if (verdict != GO_ON)
            return verdict;
    }
    if (cfg.drains)
        bpf_tail_call(ctx, &chain, CHAIN_EARLIER);
    if (unlikely(is_retired()))
        bpf_tail_call(ctx, &chain, CHAIN_LATER);
    /* The firewall has its place here. */
    return F(begin)(ctx, work);
}

/* What an earlier instance had no flow for either. It may have left its own reading in memory of its own only. */
INLINE int F(resume)(struct xdp_md *ctx)
{
    struct F(work) *work = F(work)();
    int verdict;

    if (!work)
        return counted(DROP_INTERNAL, XDP_DROP);
    verdict = F(read)(ctx, &work->packet, true);
    return verdict == GO_ON ? F(begin)(ctx, work) : verdict;
}
