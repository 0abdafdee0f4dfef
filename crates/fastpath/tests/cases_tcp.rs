//! The state of flows: every change, and the time each may be silent.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test may panic")]

mod rig;

use fastpath::abi::{FLOW_PICKED_UP, Reason, State};
use rig::*;
use std::net::SocketAddr;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Client,
    Server,
}
use Who::{Client, Server};

/// Two ends with the router between them.
#[derive(Clone, Copy)]
struct Talk {
    family: Family,
    client: SocketAddr,
    server: SocketAddr,
}

impl Talk {
    fn new(family: Family, port: u16) -> Self {
        Self {
            family,
            client: at(family.left(10), port),
            server: at(family.right(10), 80),
        }
    }

    /// Sends a segment, which must be forwarded.
    #[track_caller]
    fn says(&self, rig: &Rig<'_>, who: Who, flags: u8) {
        let (from, into, src, dst) = match who {
            Client => (Left, Right, self.client, self.server),
            Server => (Right, Left, self.server, self.client),
        };
        let p = tcp(src, dst, flags);
        let what = format!("{who:?} says {flags:#x}");
        rig.case(
            &what,
            from,
            &p,
            to(into, p.clone().hop()),
            Reason::ForwardFlow,
        );
    }

    /// Its flow, as long as it lives.
    fn flow(&self, rig: &Rig<'_>) -> Option<Flow> {
        let mut flows = rig.flows(self.family);
        flows.retain(|flow| flow.src == self.client);
        // An expired one lies beside it until its place is needed.
        flows.sort_by_key(|flow| flow.seen);
        flows.pop()
    }
}

/// What is said, and the state after it.
type Story = (&'static str, &'static [(Who, u8, State)]);

const STORIES: &[Story] = &[
    (
        "a handshake",
        &[
            (Client, SYN, State::SynSent),
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, SYN, State::SynReceived),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Server, ACK | PSH, State::Established),
            (Client, SYN, State::Established),
            (Server, SYN | ACK, State::Established),
        ],
    ),
    (
        "the client closes first",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Client, FIN | ACK, State::FinClient),
            (Server, ACK, State::FinClient),
            (Client, FIN | ACK, State::FinClient),
            (Server, ACK | PSH, State::FinClient),
            (Server, FIN | ACK, State::Closing),
            (Client, ACK, State::TimeWait),
            (Client, ACK, State::TimeWait),
            (Server, FIN | ACK, State::TimeWait),
        ],
    ),
    (
        "the server closes first",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Server, FIN | ACK, State::FinServer),
            (Client, ACK, State::FinServer),
            (Server, FIN | ACK, State::FinServer),
            (Client, FIN | ACK, State::Closing),
            (Server, ACK, State::TimeWait),
        ],
    ),
    (
        "both close at once",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Client, FIN | ACK, State::FinClient),
            (Server, FIN | ACK, State::Closing),
            (Client, ACK, State::TimeWait),
            (Server, ACK, State::TimeWait),
        ],
    ),
    (
        "closed in the handshake",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, FIN | ACK, State::FinClient),
        ],
    ),
    (
        "both open at once",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN, State::SynSent),
            (Client, SYN | ACK, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
        ],
    ),
    (
        "refused, and tried again",
        &[
            (Client, SYN, State::SynSent),
            (Server, RST | ACK, State::Reset),
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
        ],
    ),
    (
        "reset by the client",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Client, RST, State::Reset),
            // Under way when the reset was sent.
            (Server, ACK | PSH, State::Reset),
            (Client, RST | ACK, State::Reset),
        ],
    ),
    (
        "a reset that somebody forged",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Server, RST, State::Reset),
            (Client, ACK, State::Reset),
            (Server, ACK, State::Established),
        ],
    ),
    (
        "the same ports after the end",
        &[
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
            (Server, FIN | ACK, State::FinServer),
            (Client, FIN | ACK, State::Closing),
            (Server, ACK, State::TimeWait),
            (Client, SYN, State::SynSent),
            (Server, SYN | ACK, State::SynReceived),
            (Client, ACK, State::Established),
        ],
    ),
    (
        "picked up in the middle",
        &[
            (Client, ACK | PSH, State::Established),
            (Server, ACK, State::Established),
            (Client, FIN | ACK, State::FinClient),
        ],
    ),
    (
        "picked up at the end",
        &[(Client, FIN | ACK, State::FinClient)],
    ),
];

#[test]
fn states_follow_what_both_sides_say() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                for (port, (name, story)) in (1000..).zip(STORIES) {
                    let talk = Talk::new(family, port);
                    for (line, (who, flags, state)) in story.iter().enumerate() {
                        talk.says(rig, *who, *flags);
                        let flow = talk.flow(rig).unwrap();
                        assert_eq!(flow.state, *state, "{family:?}, {name}, line {line}");
                    }
                }
                let created = rig.flows(family).len();
                assert_eq!(created, STORIES.len(), "each has one flow");
            }
        },
    );
}

#[test]
fn flows_are_confirmed_by_an_answer_alone() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                let talk = Talk::new(family, 1000);
                for _ in 0..3 {
                    talk.says(rig, Client, SYN);
                    assert!(talk.flow(rig).unwrap().half);
                }
                talk.says(rig, Server, SYN | ACK);
                assert!(!talk.flow(rig).unwrap().half);

                let refused = Talk::new(family, 1001);
                refused.says(rig, Client, SYN);
                refused.says(rig, Server, RST | ACK);
                assert!(refused.flow(rig).unwrap().half, "a reset is no answer");
            }
        },
    );
}

#[test]
fn flows_whose_beginning_was_not_seen_are_marked() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                for (port, flags, marked) in [
                    (1, SYN, 0),
                    (2, ACK, FLOW_PICKED_UP),
                    (3, SYN | ACK, FLOW_PICKED_UP),
                ] {
                    let talk = Talk::new(family, port);
                    talk.says(rig, Client, flags);
                    let flow = talk.flow(rig).unwrap();
                    assert_eq!(flow.flags & FLOW_PICKED_UP, marked, "{flags:#x}");
                }
            }
        },
    );
}

#[test]
fn a_reset_of_no_flow_begins_none() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                let talk = Talk::new(family, 1000);
                let p = tcp(talk.client, talk.server, RST);
                rig.case(
                    "reset",
                    Left,
                    &p,
                    to(Right, p.clone().hop()),
                    Reason::ForwardRoute,
                );
                assert_eq!(rig.flows(family), []);
            }
        },
    );
}

#[test]
fn opening_again_is_counted_and_begins_a_new_age() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                let talk = Talk::new(family, 1000);
                for (who, flags) in [
                    (Client, SYN),
                    (Server, SYN | ACK),
                    (Client, ACK),
                    (Client, RST),
                ] {
                    talk.says(rig, who, flags);
                }
                let before = talk.flow(rig).unwrap();
                rig.age(family, &before, 1);
                let reopened = rig.rises(Reason::FlowReopened, || talk.says(rig, Client, SYN));
                assert_eq!(reopened, 1);
                let after = talk.flow(rig).unwrap();
                assert_eq!((after.state, after.slot), (State::SynSent, before.slot));
                assert!(after.created >= before.created);
            }
        },
    );
}

/// The last line of the story by which a flow comes into each state.
fn way_to(state: State) -> &'static [(Who, u8)] {
    match state {
        State::SynSent => &[(Client, SYN)],
        State::SynReceived => &[(Client, SYN), (Server, SYN | ACK)],
        State::Established => &[(Client, SYN), (Server, SYN | ACK), (Client, ACK)],
        State::FinClient => &[(Client, ACK), (Server, ACK), (Client, FIN | ACK)],
        State::FinServer => &[(Client, ACK), (Server, ACK), (Server, FIN | ACK)],
        State::Closing => &[(Client, ACK), (Server, FIN | ACK), (Client, FIN | ACK)],
        State::TimeWait => &[
            (Client, ACK),
            (Server, FIN | ACK),
            (Client, FIN | ACK),
            (Server, ACK),
        ],
        State::Reset => &[(Client, ACK), (Server, ACK), (Server, RST)],
        _ => unreachable!("not of TCP"),
    }
}

#[test]
fn a_flow_of_tcp_lives_as_long_as_its_state_may_be_silent() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                for (state, seconds) in TIMEOUTS.into_iter().take(8) {
                    let talk = Talk::new(family, 2000 + state as u16);
                    for (who, flags) in way_to(state) {
                        talk.says(rig, *who, *flags);
                    }
                    // A little before its time is out ...
                    let flow = talk.flow(rig).unwrap();
                    assert_eq!(flow.state, state);
                    rig.age(family, &flow, seconds - 2);
                    // ... a retransmission of what came last, which changes nothing, finds it.
                    let (who, flags) = *way_to(state).last().unwrap();
                    let made = rig.rises(Reason::FlowCreated, || talk.says(rig, who, flags));
                    assert_eq!(made, 0, "{family:?} {state:?} lives");
                    assert_eq!(talk.flow(rig).unwrap().state, state);
                    // The packet has begun its time anew.
                    rig.age(family, &flow, seconds - 2);
                    let made = rig.rises(Reason::FlowCreated, || talk.says(rig, who, flags));
                    assert_eq!(made, 0, "{family:?} {state:?} lives on");
                    // What a client says after it is out begins another flow.
                    rig.age(family, &talk.flow(rig).unwrap(), seconds);
                    let made = rig.rises(Reason::FlowCreated, || talk.says(rig, Client, ACK));
                    assert_eq!(made, 1, "{family:?} {state:?} is over");
                    let flow = talk.flow(rig).unwrap();
                    assert!(flow.half && flow.state == State::Established);
                }
            }
        },
    );
}

#[test]
fn flows_of_other_protocols_have_states_and_times_of_their_own() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                let (client, server) = (at(family.left(10), 5000), at(family.right(10), 53));
                for (asks, answers, state, answered) in [
                    (
                        udp(client, server),
                        udp(server, client),
                        State::Udp,
                        State::UdpStream,
                    ),
                    (
                        echo(client.ip(), server.ip(), 9),
                        echo_reply(server.ip(), client.ip(), 9),
                        State::Icmp,
                        State::Icmp,
                    ),
                    (
                        other(client.ip(), server.ip(), 132),
                        other(server.ip(), client.ip(), 132),
                        State::Other,
                        State::Other,
                    ),
                ] {
                    let seconds = |state| {
                        TIMEOUTS
                            .iter()
                            .find(|(found, _)| *found == state)
                            .unwrap()
                            .1
                    };
                    let ask = || {
                        let sent = to(Right, asks.clone().hop());
                        rig.case("ask", Left, &asks, sent, Reason::ForwardFlow);
                    };
                    let answer = || {
                        let sent = to(Left, answers.clone().hop());
                        rig.case("answer", Right, &answers, sent, Reason::ForwardFlow);
                    };
                    ask();
                    ask();
                    let flow = rig.only_flow(family);
                    assert_eq!((flow.state, flow.half), (state, true));
                    rig.age(family, &flow, seconds(state) - 2);
                    assert_eq!(rig.rises(Reason::FlowCreated, ask), 0, "{state:?} lives");
                    rig.age(family, &flow, seconds(state));
                    assert_eq!(rig.rises(Reason::FlowCreated, ask), 1, "{state:?} is over");
                    answer();
                    let flow = *rig.flows(family).iter().find(|flow| !flow.half).unwrap();
                    assert_eq!(flow.state, state, "a question and its answer");
                    ask();
                    let flow = rig.flows(family)[0];
                    assert_eq!((flow.state, flow.half), (answered, false));
                    rig.age(family, &flow, seconds(answered) - 2);
                    let made = rig.rises(Reason::FlowCreated, answer);
                    assert_eq!(made, 0, "{answered:?} lives");
                    rig.age(family, &flow, seconds(answered));
                    let made = rig.rises(Reason::FlowCreated, ask);
                    assert_eq!(made, 1, "{answered:?} is over");
                    rig.forget(family);
                }
            }
        },
    );
}

#[test]
fn an_ended_flow_has_no_time_left() {
    with(
        |_| {},
        |rig| {
            for family in FAMILIES {
                let talk = Talk::new(family, 3000);
                for (who, flags) in way_to(State::Established) {
                    talk.says(rig, *who, *flags);
                }
                rig.set_state(family, &talk.flow(rig).unwrap(), State::Ended);
                let counted = rig.counted(|| talk.says(rig, Client, ACK));
                assert!(counted.contains(&(Reason::FlowExpired, 1)), "{counted:?}");
                assert!(counted.contains(&(Reason::FlowCreated, 1)), "{counted:?}");
                assert!(talk.flow(rig).unwrap().half);
            }
        },
    );
}
