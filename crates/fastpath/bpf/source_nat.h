/* Source NAT: which rule holds for a packet that would be routed, and the flow that then begins. Per family. */

INLINE FLOW *F(draft)(const PACKET *p);

INLINE bool F(within)(const ADDR *address, const ADDR *prefix, const ADDR *mask)
{
    __be32 differ = 0;

#pragma clang loop unroll(full)
    for (int i = 0; i < WORDS; i++)
        differ |= (address->w[i] ^ prefix->w[i]) & mask->w[i];
    return !differ;
}

/* The first rule that holds for a packet that would leave by `out`, counted from 1; 0 if none does. */
STAGE int F(nat_rule)(const PACKET *p, __u32 out)
{
    if (!p)
        return 0;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < NAT_RULES; i++) {
        struct F(nat_rule) *rule;
        __u32 key = i;

        if (i >= CFG(nat_rules))
            break;
        rule = bpf_map_lookup_elem(&F(nat_rules), &key);
        if (!rule)
            break;
        if ((!rule->out || rule->out == out) && F(within)(&p->src, &rule->from, &rule->from_mask) &&
            F(within)(&p->dst, &rule->to, &rule->to_mask))
            return i + 1;
    }
    return 0;
}

/* The rule, counted from 1, by which a virtual's client and member are behind the same translation; 0 if none is. */
STAGE int F(hairpin_rule)(const PACKET *p, const ADDR *member)
{
    if (!p || !member)
        return 0;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < NAT_RULES; i++) {
        struct F(nat_rule) *rule;
        __u32 key = i;

        if (i >= CFG(nat_rules))
            break;
        rule = bpf_map_lookup_elem(&F(nat_rules), &key);
        if (!rule)
            break;
        if (rule->hairpin && F(within)(&p->src, &rule->from, &rule->from_mask) &&
            F(within)(member, &rule->from, &rule->from_mask))
            return i + 1;
    }
    return 0;
}

/* Whence a virtual's client must get a source because the chosen member would else answer it directly; or null. */
INLINE const struct source *F(hairpin)(const PACKET *p, const ADDR *member)
{
    struct F(nat_rule) *rule;
    __u32 number;

    if (!CFG(nat_rules))
        return NULL;
    number = F(hairpin_rule)(p, member);
    if (!number)
        return NULL;
    number--;
    rule = bpf_map_lookup_elem(&F(nat_rules), &number);
    return rule ? &rule->source : NULL;
}

/* Begins a flow whose source the rule, counted from 0, translates. */
STAGE int F(source_nat)(struct xdp_md *ctx, PACKET *p, __u32 number, __u32 out)
{
    struct F(nat_rule) *rule = bpf_map_lookup_elem(&F(nat_rules), &number);
    FLOW *f;
    int reason;

    KEEP(out);
    if (!p || !rule)
        return counted(DROP_INTERNAL, XDP_DROP);
    f = F(draft)(p);
    if (!f)
        return counted(DROP_INTERNAL, XDP_DROP);
    f->way = WAY_TRANSLATE;
    f->rule = rule->id;
    reason = F(allocate)(ctx, p, f, &rule->source);
    if (reason)
        return counted(reason, XDP_DROP);
    return ENTER;
}
