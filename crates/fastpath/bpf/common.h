/* What every part of the programs stands on: headers, settings, small helpers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* linux/icmp.h asks for it, and it for the C library. */
#define _LINUX_IF_H
#define IFNAMSIZ 16

#include <linux/bpf.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "abi.h"
#include "reasons.h"

#define AF_INET 2
#define AF_INET6 10

#define INLINE static __always_inline
/* A stage of its own: the verifier sees it once, however often it is called. */
#define STAGE __attribute__((noinline))

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))

/* Keeps the compiler from joining what the verifier has to see apart. */
#define barrier_var(var) asm volatile("" : "+r"(var))

const volatile struct settings cfg;

/* Has the compiler pass an argument that a stage does not look at: the verifier checks what it is handed. */
#define KEEP(arg) asm volatile("" ::"r"(arg))

/* Verdicts beyond XDP's own, within the programs. */
#define GO_ON (-1)

INLINE __u32 jiffies_now(void)
{
    return bpf_jiffies64();
}

/* x in [0, n) from 32 evenly spread bits, without a division. */
INLINE __u32 scale(__u32 bits, __u32 n)
{
    return ((__u64)bits * n) >> 32;
}
