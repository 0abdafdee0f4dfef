/* Why a packet was dropped, passed to the kernel or sent on: each has a counter. The names are what users see. */
#pragma once

/* clang-format off */
#define REASONS(X)                                                                                      \
    /* sent on */                                                                                       \
    X(FORWARD_ROUTE,      "forward_route",      "routed without state")                                 \
    X(FORWARD_FLOW,       "forward_flow",       "of a known flow")                                      \
    X(FORWARD_NEW,        "forward_new",        "first of a flow")                                      \
    X(FORWARD_ICMP,       "forward_icmp",       "ICMP error that belongs to a flow")                    \
    X(FORWARD_FRAGMENT,   "forward_fragment",   "later fragment of a flow")                             \
    X(REPLY_ICMP,         "reply_icmp",         "answered with an ICMP error")                          \
    /* passed to the kernel */                                                                          \
    X(PASS_NOT_IP,        "pass_not_ip",        "neither IPv4 nor IPv6")                                \
    X(PASS_MULTICAST,     "pass_multicast",     "multicast or broadcast")                               \
    X(PASS_NEIGHBOUR,     "pass_neighbour",     "neighbour discovery and the like")                     \
    X(PASS_OPTIONS,       "pass_options",       "IP options or extension headers that are the kernel's") \
    X(PASS_LOCAL,         "pass_local",         "for this machine, or no route")                        \
    X(PASS_OFF,           "pass_off",           "forwarding is off")                                    \
    X(PASS_NO_NEIGHBOUR,  "pass_no_neighbour",  "the kernel has to find the neighbour")                 \
    X(PASS_TTL,           "pass_ttl",           "TTL or hop limit is used up")                          \
    X(PASS_TOO_BIG,       "pass_too_big",       "larger than the MTU")                                  \
    X(PASS_UNREACHABLE,   "pass_unreachable",   "the route says unreachable or prohibited")             \
    X(PASS_PORT,          "pass_port",          "leaves by an interface that is not in the fast path")  \
    X(PASS_FRAGMENT,      "pass_fragment",      "fragment of no known flow")                            \
    X(PASS_ICMP,          "pass_icmp",          "ICMP that belongs to no flow")                         \
    X(PASS_OTHER_HOST,    "pass_other_host",    "sent to another's link address")                       \
    X(PASS_PROBE,         "pass_probe",         "so that the kernel looks after the neighbour")         \
    /* dropped */                                                                                       \
    X(DROP_SHUN,          "drop_shun",          "the source is shunned")                                \
    X(DROP_MALFORMED,     "drop_malformed",     "headers cut short or at odds")                         \
    X(DROP_BLACKHOLE,     "drop_blackhole",     "the route is a blackhole")                             \
    X(DROP_NO_MEMBER,     "drop_no_member",     "no member of the pool can be chosen")                  \
    X(DROP_NO_NEIGHBOUR,  "drop_no_neighbour",  "the member's neighbour is not known")                  \
    X(DROP_NO_PORT,       "drop_no_port",       "source NAT found no free port")                        \
    X(DROP_NO_ADDRESS,    "drop_no_address",    "source NAT has no address for that interface")         \
    X(DROP_USER_LIMIT,    "drop_user_limit",    "the user has all the flows it may have")               \
    X(DROP_TABLE_FULL,    "drop_table_full",    "no room for a flow that needs one")                    \
    X(DROP_FRAGMENT,      "drop_fragment",      "fragment for a virtual whose first was not seen")      \
    X(DROP_NOT_A_START,   "drop_not_a_start",   "of no flow that it needs, and no beginning of one")    \
    X(DROP_REDIRECT,      "drop_redirect",      "could not be handed to the interface")                 \
    X(DROP_TTL,           "drop_ttl",           "used up, and it could not be answered")                \
    X(DROP_TOO_BIG,       "drop_too_big",       "larger than the MTU, and it could not be answered")    \
    X(DROP_NEEDS_FRAGMENTING, "drop_needs_fragmenting", "larger than the MTU on its way to a member")   \
    X(DROP_INTERNAL,      "drop_internal",      "what should not happen: please report it")             \
    /* events, beside the verdict */                                                                    \
    X(FLOW_CREATED,       "flow_created",       "flows begun")                                          \
    X(FLOW_PROMOTED,      "flow_promoted",      "flows answered and moved to the table")                \
    X(FLOW_EXPIRED,       "flow_expired",       "flows removed after their time")                       \
    X(FLOW_REOPENED,      "flow_reopened",      "flows begun again with the same tuple")                \
    X(FLOW_NOT_PROMOTED,  "flow_not_promoted",  "flows answered, for which the table had no room")      \
    X(FLOW_EVICTED,       "flow_evicted",       "unanswered flows that gave way to newer ones")         \
    X(FLOW_MOVED,         "flow_moved",         "flows given to another member")                        \
    X(HOP_REFRESHED,      "hop_refreshed",      "next hops looked up again")                            \
    X(NAT_PROBES,         "nat_probes",         "ports tried for source NAT beyond the first")          \
    X(TABLE_MISS,         "table_miss",         "packets of no flow in the table")
/* clang-format on */

enum reason {
#define X(name, text, help) name,
    REASONS(X)
#undef X
        REASON_COUNT,
};
