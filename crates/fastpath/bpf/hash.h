/* The hash of a tuple. It is the same for both directions: each endpoint is mixed by itself, and the two are added. It is
 * keyed, so that nobody can fill one bucket from afar. */
#ifndef HASH_CONSTANTS
#define HASH_CONSTANTS
#define K1 0x9e3779b97f4a7c15ull
#define K2 0xbf58476d1ce4e5b9ull
#define K3 0x94d049bb133111ebull
#define K4 0xd6e8feb86659fd93ull
#define K5 0xff51afd7ed558ccdull

INLINE __u32 tag_of(__u64 hash)
{
    return (__u32)hash | 0x80000000;
}

/* The first and the second bucket of a hash. */
INLINE __u32 bucket_of(__u64 hash, __u32 buckets)
{
    return scale(hash >> 32, buckets);
}

INLINE __u32 other_bucket_of(__u64 hash, __u32 buckets)
{
    return scale((hash * K5) >> 32, buckets);
}
#endif

INLINE __u64 F(mix)(const ADDR *addr, __be16 port)
{
#if FAMILY == 4
    __u64 x = ((__u64)addr->w[0] << 16 | port) + cfg.seed[0];

    x *= K1;
    x ^= x >> 32;
    return x * K2;
#else
    __u64 x = ((__u64)addr->w[0] << 32 | addr->w[1]) + cfg.seed[0];
    __u64 y = ((__u64)addr->w[2] << 32 | addr->w[3]) + cfg.seed[1];

    x *= K1;
    y *= K4;
    x ^= x >> 32;
    y ^= y >> 29;
    x = (x + y + port) * K2;
    x ^= x >> 31;
    return x * K1;
#endif
}

INLINE __u64 F(hash)(const ADDR *src, const ADDR *dst, __be16 sport, __be16 dport, __u8 proto)
{
    __u64 h = F(mix)(src, sport) + F(mix)(dst, dport) + proto * K4;

    h ^= h >> 32;
    h *= K3;
    return h ^ h >> 29;
}
