/* Tells user space the time that the programs live by. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct moment {
    __u64 jiffies;
    __u64 nanos; /* since the machine was started */
};

SEC("syscall")
int headgate_clock(struct moment *moment)
{
    moment->jiffies = bpf_jiffies64();
    moment->nanos = bpf_ktime_get_ns();
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
