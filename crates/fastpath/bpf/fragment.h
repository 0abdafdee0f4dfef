/* Fragments: the first one has the ports, and later ones are given them. Per family. */

INLINE void F(fragment_key)(struct fragment_key *key, const PACKET *p)
{
    __builtin_memset(key, 0, sizeof(*key));
    F(widen)(key->src, &p->src);
    F(widen)(key->dst, &p->dst);
    key->id = p->fragment;
    key->proto = p->proto;
    key->family = FAMILY;
}

/* Remembers the ports of a first fragment, or gives them to a later one. A later one of no known datagram keeps none. */
STAGE int F(fragment)(PACKET *p)
{
    struct fragment_key key;
    struct fragment *known, entry;

    if (!p)
        return 0;
    F(fragment_key)(&key, p);
    if (p->kind & KIND_FIRST) {
        entry.sport = p->sport;
        entry.dport = p->dport;
        entry.seen = p->now;
        bpf_map_update_elem(&fragments, &key, &entry, BPF_ANY);
        return 0;
    }
    known = bpf_map_lookup_elem(&fragments, &key);
    if (known && p->now - known->seen < cfg.fragment_timeout) {
        p->sport = known->sport;
        p->dport = known->dport;
    }
    return 0;
}
