//! `headgate fastpath decap`, for members that are sent packets within packets.

use super::args::Decap;
use super::text::count;
use super::{Error, print, print_json};
use fastpath::decap::{self, Status};
use serde_json::json;

/// Puts the unpacking program on an interface, takes it off, or shows what it did.
pub(super) fn decap(args: &Decap) -> Result<(), Error> {
    xdp::require::check()?;
    let interface = &args.interface;
    if args.detach {
        let was_there = decap::detach(interface)?;
        return print(&match was_there {
            true => format!("taken off {interface}\n"),
            false => format!("{interface} did not have it\n"),
        });
    }
    let status = match args.show {
        true => decap::status(interface)?,
        false => Some(decap::attach(interface, args.mode, &args.address)?),
    };
    let Some(status) = status else {
        return print(&format!(
            "{interface} does not have it; without --show it is put there\n"
        ));
    };
    if args.json {
        return print_json(&json!({
            "interface": status.interface,
            "mode": status.mode.as_str(),
            "addresses": status.addresses,
            "decapsulated": status.stats.decapsulated,
            "passed": status.stats.passed,
            "malformed": status.stats.malformed,
            "congested": status.stats.congested,
        }));
    }
    print(&render(&status))
}

fn render(status: &Status) -> String {
    let addresses: Vec<String> = status.addresses.iter().map(ToString::to_string).collect();
    format!(
        "{}: tunnels to {} are unpacked, in {} mode\n{} unpacked, {} passed as they were, {} malformed, {} congested\n",
        status.interface,
        addresses.join(", "),
        status.mode.as_str(),
        count(status.stats.decapsulated),
        count(status.stats.passed),
        count(status.stats.malformed),
        count(status.stats.congested),
    )
}
