/* The stages in their order, for one family. */
#include "family.h"

#include "packet.h"
#include "hash.h"
#include "shun.h"
#include "slots.h"
#include "table.h"
#include "half.h"
#include "translate.h"
#include "route.h"
#include "answer.h"
#include "tunnel.h"
#include "serve.h"
#include "allocate.h"
#include "balance.h"
#include "source_nat.h"
#include "fragment.h"
#include "begin.h"
#include "icmp.h"

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
        __u64 none = 0;

        if (f) {
            int verdict = F(serve)(ctx, p, f, &none, 0, found.direction);

            return verdict == MOVE ? counted(DROP_NO_MEMBER, XDP_DROP) : verdict;
        }
    }
    int verdict = F(serve)(ctx, p, found.flow, found.entry, found.value, found.direction);

    if (verdict != MOVE)
        return verdict;
    found.flow->state = STATE_FREE;
    return GO_ON;
}

INLINE int F(path)(struct xdp_md *ctx, bool resumed)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    bool stateful = cfg.forward == FORWARD_TRACKED || cfg.virtuals || CFG(nat_rules);
    struct F(found) found;
    PACKET packet, *p = &packet;
    __u64 hash;
    int verdict;

    p->now = jiffies_now();
    p->fragment = 0;
    p->icmp = p->icmp_code = 0;
    verdict = F(parse_ip)(ctx, data, end, p);
    if (unlikely(verdict != GO_ON))
        return verdict;
    if (!resumed && unlikely(F(shunned)(p)))
        return counted(DROP_SHUN, XDP_DROP);
    verdict = F(parse_transport)(data, end, p);
    if (unlikely(verdict != GO_ON))
        return verdict;
    /* Filters against floods have their place here. */
    if (unlikely(!stateful))
        return F(begin)(ctx, p);
    if (unlikely(p->kind & (KIND_FIRST | KIND_LATER)))
        F(fragment)(p);
    if (unlikely(p->kind & KIND_ERROR)) {
        verdict = F(icmp_error)(ctx, p);
        if (verdict != GO_ON)
            return verdict;
    }
    if (!resumed) {
        hash = F(hash)(&p->src, &p->dst, p->sport, p->dport, p->proto);
        if (likely(F(find)(p, hash, &found))) {
            if (unlikely(F(expired)(found.flow, p->now))) {
                F(remove)((__u32)found.value);
            } else {
                verdict = F(serve)(ctx, p, found.flow, found.entry, found.value, found.direction);
                if (likely(verdict != MOVE))
                    return verdict;
                F(remove)((__u32)found.value);
                count(FLOW_MOVED);
            }
        }
        verdict = F(serve_half)(ctx, p, hash);
        if (verdict != GO_ON)
            return verdict;
        if (cfg.drains)
            bpf_tail_call(ctx, &chain, 0);
        if (unlikely(is_retired()))
            bpf_tail_call(ctx, &chain, 1);
    }
    /* The firewall has its place here. */
    return F(begin)(ctx, p);
}
