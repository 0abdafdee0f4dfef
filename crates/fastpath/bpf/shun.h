/* The shun list: sources whose packets are dropped before any other work. Per family. */
#ifndef SHUN_CONSTANTS
#define SHUN_CONSTANTS
/* How many entries a table of the shun list has. */
INLINE bool shuns_any(__u32 table)
{
    __u64 *n = bpf_map_lookup_elem(&shun_counts, &table);

    return n && *n;
}
#endif

INLINE bool F(shunned)(const PACKET *p)
{
    struct shun *shun;

    if (shuns_any(FAMILY_INDEX)) {
        shun = bpf_map_lookup_elem(&F(shuns), &p->src);
        if (shun && (__s32)(shun->until - p->now) > 0)
            return true;
    }
    if (shuns_any(2 + FAMILY_INDEX)) {
        struct F(shun_prefix) key = {.bits = sizeof(ADDR) * 8, .addr = p->src};

        shun = bpf_map_lookup_elem(&F(shun_prefixes), &key);
        if (shun && (__s32)(shun->until - p->now) > 0)
            return true;
    }
    return false;
}
