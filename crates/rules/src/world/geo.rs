//! `whereis`: where an address is, by the geographic database that the host has.

use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;
use std::net::IpAddr;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("whereis", "address|ldns ?attribute ...?", 1, 12, whereis).differs(
        "reads MaxMind databases; country is its ISO code, continent its two letters, state and city their English names; \
         ldns is not known",
    ),
];

/// Attributes, and where each stands in a MaxMind record; the first that is there counts. Numbers are places in an
/// array.
const ATTRIBUTES: &[(&str, &[&[&str]])] = &[
    ("continent", &[&["continent", "code"]]),
    (
        "country",
        &[
            &["country", "iso_code"],
            &["registered_country", "iso_code"],
        ],
    ),
    ("country_name", &[&["country", "names", "en"]]),
    ("state", &[&["subdivisions", "0", "names", "en"]]),
    ("abbrev", &[&["subdivisions", "0", "iso_code"]]),
    ("region", &[&["subdivisions", "0", "iso_code"]]),
    ("city", &[&["city", "names", "en"]]),
    ("zip", &[&["postal", "code"]]),
    ("postal_code", &[&["postal", "code"]]),
    ("metro_code", &[&["location", "metro_code"]]),
    ("latitude", &[&["location", "latitude"]]),
    ("longitude", &[&["location", "longitude"]]),
    ("timezone", &[&["location", "time_zone"]]),
    ("isp", &[&["isp"], &["autonomous_system_organization"]]),
    ("asn", &[&["autonomous_system_number"]]),
    (
        "org",
        &[&["organization"], &["autonomous_system_organization"]],
    ),
    (
        "proxy",
        &[&["traits", "is_anonymous_proxy"], &["is_anonymous_proxy"]],
    ),
];

/// What is told where no attribute is named.
const USUAL: &[&str] = &["continent", "country", "state", "city"];

fn whereis(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let text = args[0].lossy();
    let address = super::pool::plain_address(&text)
        .ok_or_else(|| Fault::error(format!("invalid address \"{text}\"")))?
        .to_canonical();
    match &args[1..] {
        [] => {
            let usual = USUAL.iter().map(|name| look(ctx, address, name.as_bytes()));
            Ok(Value::list_of(usual.collect::<Result<_, _>>()?))
        }
        [one] => look(ctx, address, &one.bytes()),
        several => {
            let all = several.iter().map(|name| look(ctx, address, &name.bytes()));
            Ok(Value::list_of(all.collect::<Result<_, _>>()?))
        }
    }
}

fn look(ctx: &Ctx<'_>, address: IpAddr, name: &[u8]) -> Result<Value, Fault> {
    let known = ATTRIBUTES
        .iter()
        .find(|(known, _)| known.as_bytes() == name);
    let Some((_, paths)) = known else {
        let names: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
        return Err(Fault::bad("attribute", name, &names));
    };
    let found = paths
        .iter()
        .find_map(|path| ctx.host.geography(address, path));
    Ok(found.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;

    #[test]
    fn attributes_are_looked_up() {
        let mut world = World::new();
        let address = "192.0.2.1".parse().unwrap();
        world.host.geography = vec![
            (address, "country/iso_code", "CH"),
            (address, "continent/code", "EU"),
            (address, "city/names/en", "Sankt Gallen"),
            (address, "autonomous_system_organization", "Net"),
        ];
        world.check(&[
            ("whereis 192.0.2.1 country", "CH"),
            ("whereis ::ffff:192.0.2.1 country", "CH"),
            ("whereis 192.0.2.1%3 city", "Sankt Gallen"),
            ("whereis 192.0.2.1 zip", ""),
            ("whereis 192.0.2.1 isp", "Net"),
            ("whereis 192.0.2.1", "EU CH {} {Sankt Gallen}"),
            ("whereis 192.0.2.1 country continent", "CH EU"),
            ("whereis 192.0.2.2 country", ""),
            ("whereis home country", "!invalid address \"home\""),
        ]);
        assert!(
            world
                .text("whereis 192.0.2.1 mood")
                .starts_with("!bad attribute \"mood\"")
        );
    }
}
