/* Internet checksums, changed as the words under them change (RFC 1624). */
#pragma once

#include "common.h"

INLINE __u16 fold(__u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* The checksum after its words have changed by `delta`: the sum of the new words and of the old ones' complements. */
INLINE __sum16 adjusted(__sum16 checksum, __u64 delta)
{
    return ~fold((__u16)~checksum + delta);
}

/* What replacing a 32-bit word adds to the sum. */
INLINE __u64 replaced(__u32 old, __u32 new)
{
    return (__u64)(__u32)~old + new;
}

/* What replacing a 16-bit word adds. */
INLINE __u64 replaced16(__u16 old, __u16 new)
{
    return (__u64)(__u16)~old + new;
}
