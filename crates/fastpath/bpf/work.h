/* What is too large for the stack. A packet is worked on by one CPU from its beginning to its end, so this is per CPU. Per
 * family. */

struct F(work)
{
    PACKET packet;
    __u64 hash;              /* of its tuple */
    struct F(tuple) leaving; /* with which the packet leaves */
    FLOW draft;              /* the flow that is being made */
};
PER_CPU(F(works), struct F(work), 1);

INLINE struct F(work) * F(work)(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&F(works), &zero);
}
