/* What the programs share with user space; src/packet/abi.rs mirrors it. */
#ifndef TRAFFIC_ABI_H
#define TRAFFIC_ABI_H

#include <linux/types.h>

#define TEMPLATE 112      /* bytes, a multiple of 8, at least header and signature of the longest stream */
#define PATTERN 128       /* frame sizes that follow one another */
#define REPLAY_FRAME 3520 /* bytes: what fits one page of a live frame */
#define STREAMS 256
#define DELAYS 40         /* powers of two of nanoseconds */
#define REQUEST 64        /* bytes of payload at most, of the acted client */
#define RESPONSE 1448     /* and of the acted server */

#define SIGNATURE_MAGIC 0x4847
#define SIGNATURE 16

/* At the start of the payload. */
struct signature {
    __be16 magic;
    __be16 stream;
    __be32 sequence;
    __u64 time; /* nanoseconds of CLOCK_MONOTONIC, 0 when not stamped; in the machine's order, as it does not leave it */
} __attribute__((packed, aligned(2)));

/* Which segment of a TCP connection is acted out. */
enum act {
    ACT_NONE,
    ACT_SYN,
    ACT_KEEP_ALIVE,
    ACT_REQUEST,
    ACT_RESET,
};

struct range {
    __u32 first; /* in the machine's order */
    __u32 count;
};

/* A stream as one thread sends it: constant for the program, which the verifier then cuts down to what it needs. */
struct stream {
    __u8 template[TEMPLATE]; /* headers and signature, with what varies zero */
    __u32 ip_sum;            /* of the IPv4 header in the template */
    __u32 transport_sum;     /* of pseudo header, header and payload in the template */
    __u8 family;             /* 4 or 6 */
    __u8 protocol;
    __u8 act;
    __u8 random;      /* each frame's fields are drawn, instead of following one another */
    __u8 signed_;     /* has a signature */
    __u8 stamped;     /* which says when it was sent */
    __u8 paced;
    __u8 words;       /* of the template */
    __u16 header;     /* bytes to the payload */
    __u16 room;       /* bytes of the frame that the program gets */
    __u16 pattern_len;
    __u16 pad;
    __u16 pattern[PATTERN]; /* sizes of frames */
    struct range source;    /* the last 32 bits of the address */
    struct range destination;
    struct range sport;
    struct range dport;
    __u64 flow_first; /* the part of all flows this thread sends */
    __u64 flow_count;
    __u64 seed;
};

/* Where the sender is. */
struct state {
    __u64 sent;     /* frames */
    __u64 bytes;    /* without what the wire adds */
    __u64 limit;    /* stop at this many sent */
    __u64 next;     /* when the next is due: nanoseconds × 256 */
    __u64 interval; /* between two: nanoseconds × 256 */
    __u64 gap;      /* at least so much between two, also when catching up */
    __u64 earliest; /* when the gap ends */
    __u64 missed;   /* how late it may be and still catch up, all nanoseconds × 256 */
    __u64 flow;     /* within the part */
    __u64 refused;  /* frames that the interface did not take */
    __u32 source, destination, sport, dport; /* the flow, as offsets in the ranges */
    __u32 size;     /* place in the pattern */
    __u32 epoch;    /* how often the flows have been gone through */
    __u32 error;    /* why frames cannot leave by the interface at all: an errno */
    __u32 pad;
};

/* Whose refused frames are counted. */
struct device {
    __u64 namespace_inode;
    __u32 ifindex;
    __u32 pad;
};

/* A frame of a capture. */
struct replayed {
    __u32 len;
    __u32 pad;
    __u8 data[REPLAY_FRAME];
};

/* What a receiver does with frames. */
struct receiving {
    __u8 all;  /* count every IP frame, not only those with our signature */
    __u8 pass; /* hand frames on to the kernel after counting them */
    __u8 pad[6];
};

/* One CPU's share of what arrived. */
struct received {
    __u64 packets; /* counted: with our signature, or all */
    __u64 bytes;
    __u64 other;   /* not counted above */
};

/* One CPU's share of a stream. Sequence numbers are lengthened to 64 bits. */
struct stream_received {
    __u64 packets;
    __u64 bytes;
    __u64 lowest;
    __u64 highest;
    __u64 late;     /* came after one that was sent after them (RFC 4737, section 3) */
    __u64 farthest; /* by how many at most */
};

/* What the two acted ends of TCP do. */
struct acting {
    __u8 hold;            /* a client that only completes the handshake */
    __u8 pad;
    __u16 request_len;    /* bytes of payload */
    __u16 response_len;
    __u16 pad2;
    __u32 request_sum;    /* of the payload */
    __u32 response_sum;
};

/* One CPU's share of what the acted ends saw. */
struct acted {
    /* client */
    __u64 established; /* SYN-ACKs that belong to a connection of ours */
    __u64 responses;   /* segments with data */
    __u64 closed;      /* FINs acknowledged */
    __u64 resets;
    __u64 alive;       /* keep-alives answered */
    __u64 strange;     /* segments that belong to no connection of ours */
    /* server */
    __u64 syns;
    __u64 accepted;    /* handshakes completed without a request in the same segment */
    __u64 requests;
    __u64 fins;
    __u64 ends;        /* last acknowledgements, and resets */
    __u64 keep_alives;
    /* either */
    __u64 no_room;     /* replies that the frame could not grow for */
};

#endif
