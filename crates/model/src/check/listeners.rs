//! Every address and port is listened on once, over all virtuals and the admin interface.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use crate::Listen;
use crate::error::ErrorKind;
use crate::node::{Node, Span};
use crate::setting::Context;

/// Ranges of ports that the fast path looks through for one address and transport protocol.
const MOST_RANGES: usize = 16;

/// Reports what is listened on twice, and ranges too many.
pub(crate) fn listeners(root: &Node, cx: &mut Context<'_>) {
    let mut taken = Taken::default();
    if let Some(node) = root.get("admin").and_then(|admin| admin.get("listen")) {
        taken.take(node, false, cx);
    }
    for (_, server) in root.get("virtuals").map_or(&[][..], Node::entries) {
        let is = |field, word| server.get(field).and_then(Node::scalar) == Some(word);
        let udp = is("protocol", "fast") && is("transport", "udp");
        for node in server.get("listen").map_or(&[][..], Node::items) {
            taken.take(node, udp, cx);
        }
    }
}

/// What is listened on so far.
#[derive(Default)]
struct Taken(HashMap<Place, BTreeMap<u16, (u16, Span)>>);

/// Where ports are distinct: transport protocol (UDP or not), address, and for a link-local one its link.
type Place = (bool, IpAddr, u32);

impl Taken {
    fn take(&mut self, node: &Node, udp: bool, cx: &mut Context<'_>) {
        let Some(listen) = node.scalar().and_then(Listen::from_text) else {
            return; // which is told where it is decoded
        };
        let (low, high) = listen.ports().into_inner();
        // port 0 is another port each time
        if low == 0 {
            return;
        }
        let scope = match listen.socket() {
            std::net::SocketAddr::V6(address) => address.scope_id(),
            std::net::SocketAddr::V4(_) => 0,
        };
        // none overlaps another, so the last one that does not begin after `high` ends last
        let ports = self.0.entry((udp, listen.address(), scope)).or_default();
        let before = ports.range(..=high).next_back();
        if let Some((&start, &(end, span))) = before.filter(|(_, (end, _))| *end >= low) {
            let first = cx.place(span);
            let both = listen.among(low.max(start)..=high.min(end));
            cx.error(
                node.span,
                ErrorKind::ListenTwice {
                    address: both.to_string(),
                    first,
                },
            );
            return;
        }
        ports.insert(low, (high, node.span));
        let ranges = ports.iter().filter(|(low, (high, _))| *low < high);
        if low < high && ranges.count() > MOST_RANGES {
            let what =
                "one address takes at most 16 ranges of ports; list single ports, or join ranges";
            cx.error(node.span, ErrorKind::Needs(what));
        }
    }
}
