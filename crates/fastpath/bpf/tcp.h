/* The state of TCP flows, from flags and directions alone. */
#pragma once

#include "common.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* Which direction a reset came from, beside the flow's other flags. */
#define FLOW_RESET_BY_SERVER 0x80

/* The state after a segment with these flags. */
INLINE __u8 tcp_next(__u8 state, __u8 *flags_of_flow, __u8 tcp, int direction, bool replies_pass)
{
    if (tcp & TCP_RST) {
        if (direction)
            *flags_of_flow |= FLOW_RESET_BY_SERVER;
        else
            *flags_of_flow &= ~FLOW_RESET_BY_SERVER;
        return STATE_RESET;
    }
    if (tcp & TCP_SYN) {
        if (tcp & TCP_ACK)
            return direction && state == STATE_SYN_SENT ? STATE_SYN_RECEIVED : state;
        /* The client begins anew with the same ports. */
        if (!direction && state >= STATE_FIN_CLIENT && state <= STATE_RESET)
            return STATE_SYN_SENT;
        return state;
    }
    if (tcp & TCP_FIN) {
        switch (state) {
        case STATE_SYN_SENT:
        case STATE_SYN_RECEIVED:
        case STATE_ESTABLISHED:
            return direction ? STATE_FIN_SERVER : STATE_FIN_CLIENT;
        case STATE_FIN_CLIENT:
            return direction ? STATE_CLOSING : state;
        case STATE_FIN_SERVER:
            return direction ? state : STATE_CLOSING;
        }
        return state;
    }
    switch (state) {
    case STATE_SYN_SENT:
        return !direction && !replies_pass ? STATE_ESTABLISHED : state;
    case STATE_SYN_RECEIVED:
        return direction ? state : STATE_ESTABLISHED;
    case STATE_CLOSING:
        return STATE_TIME_WAIT;
    case STATE_RESET:
        /* Whoever sends on has not reset: somebody else forged it. What the other side sends may have been under way. */
        return !!(*flags_of_flow & FLOW_RESET_BY_SERVER) == !!direction ? STATE_ESTABLISHED : state;
    }
    return state;
}
