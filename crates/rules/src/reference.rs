//! The compatibility table as Markdown, from the tables of events and commands: what is there, how it differs from F5's, and
//! what is not there.

use crate::command::{ANY, Command};
use crate::compile::{DISABLED, SPECIAL};
use crate::event::{Event, Events};
use crate::world::missing::{self, Missing};
use std::fmt::Write;

/// The compatibility table, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut out = String::new();
    let world: Vec<&Command> = crate::world::TABLES
        .iter()
        .flat_map(|table| table.iter())
        .collect();
    let language: Vec<&Command> = crate::commands::TABLES
        .iter()
        .flat_map(|table| table.iter())
        .collect();
    events(&mut out);
    put(&mut out, "\n## Commands of F5's\n\n");
    commands(&mut out, world);
    put(&mut out, "\n## Commands of Tcl\n\n");
    let special: Vec<&str> = SPECIAL
        .iter()
        .copied()
        .filter(|name| !language.iter().any(|one| one.name == *name))
        .collect();
    put(
        &mut out,
        &format!(
            "The compiler knows {} itself; they are done.\n\n",
            listed(&special)
        ),
    );
    commands(&mut out, language);
    put(
        &mut out,
        "\n## Commands that are switched off\n\nAs on BIG-IP; a rule that uses one is not loaded.\n\n| command | why |\n| --- | --- |\n",
    );
    for (why, names) in DISABLED {
        let _ = writeln!(out, "| {} | {why} |", listed(names));
    }
    put(
        &mut out,
        "\n## Not yet\n\nA rule that uses one is not loaded, and the error says so. A star stands for any ending.\n\n| command | why |\n| --- | --- |\n",
    );
    unknown(&mut out, missing::COMMANDS);
    put(&mut out, "\n| event | why |\n| --- | --- |\n");
    unknown(&mut out, missing::EVENTS);
    out
}

fn events(out: &mut String) {
    put(out, "## Events\n\n| event | when |\n| --- | --- |\n");
    for event in Event::ALL {
        let _ = writeln!(out, "| `{event}` | {} |", event.about());
    }
}

fn commands(out: &mut String, mut list: Vec<&Command>) {
    list.sort_by_key(|command| command.name);
    put(out, "| command | state | at |\n| --- | --- | --- |\n");
    let mut sets: Vec<String> = Vec::new();
    for command in list {
        let state = match command.differs {
            "" => "done".to_owned(),
            how => format!("differs: {}", cell(how)),
        };
        let _ = writeln!(
            out,
            "| {} | {state} | {} |",
            usage(command),
            places(command.events, &mut sets)
        );
    }
    for (number, set) in (1..).zip(&sets) {
        let _ = writeln!(out, "\nSet {number}: {set}.");
    }
}

fn usage(command: &Command) -> String {
    let words = match (command.usage, command.least, command.most) {
        ("", 0, 0) => String::new(),
        ("", _, ANY) => " …".to_owned(),
        (usage, ..) => format!(" {usage}"),
    };
    format!("`{}{}`", command.name, cell(&words))
}

/// Where a command may stand, in whichever way is shorter; what is long is said once for all in `sets`.
fn places(events: Events, sets: &mut Vec<String>) -> String {
    let names = |wanted: bool| -> Vec<&str> {
        let all = Event::ALL
            .iter()
            .filter(|event| events.has(**event) == wanted);
        all.map(|event| event.name()).collect()
    };
    let (here, not) = (names(true), names(false));
    match (here.len(), not.len()) {
        (_, 0) => "any".to_owned(),
        (1..=4, _) => listed(&here),
        (_, 1..=4) => format!("any but {}", listed(&not)),
        _ => {
            let set = families(&here);
            let known = sets.iter().position(|other| *other == set);
            let at = known.unwrap_or_else(|| {
                sets.push(set);
                sets.len() - 1
            });
            format!("set {}", at + 1)
        }
    }
}

/// Names of events, shortened to what they begin with where a whole family is meant.
fn families(names: &[&str]) -> String {
    let family = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
    let mut out: Vec<String> = Vec::new();
    for name in names {
        let family = family(name);
        let of = |list: &mut dyn Iterator<Item = &str>| {
            list.filter(|other| other.split('_').next() == Some(&family))
                .count()
        };
        let all = of(&mut Event::ALL.iter().map(|event| event.name()));
        let here = of(&mut names.iter().copied());
        let said = match all == here && all > 1 {
            true => format!("`{family}_*`"),
            false => format!("`{name}`"),
        };
        if !out.contains(&said) {
            out.push(said);
        }
    }
    out.join(", ")
}

fn unknown(out: &mut String, list: &[Missing]) {
    for one in list {
        let why = if one.why.is_empty() {
            "not yet"
        } else {
            one.why
        };
        let _ = writeln!(out, "| `{}` | {} |", one.name, cell(why));
    }
}

fn listed(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// A text that ends no cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn put(out: &mut String, text: &str) {
    out.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::disabled;
    use std::fs;
    use std::path::Path;

    const MARK: &str = "<!-- What follows is generated from the tables of crates/rules: UPDATE_DOCS=1 cargo test -p rules -->\n";

    #[test]
    fn the_table_in_the_docs_is_that_of_the_code() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rules.md");
        let written = fs::read_to_string(&path).unwrap_or_default();
        let (before, after) = written
            .split_once(MARK)
            .expect("docs/rules.md has its mark");
        let table = format!("\n{}", reference());
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, format!("{before}{MARK}{table}")).unwrap();
            return;
        }
        assert!(
            after == table,
            "docs/rules.md is stale: UPDATE_DOCS=1 cargo test -p rules"
        );
    }

    #[test]
    fn what_is_said_to_be_switched_off_is() {
        let known = [crate::world::TABLES, crate::commands::TABLES].concat();
        let known = known.iter().flat_map(|table| table.iter());
        let known: Vec<&str> = known.map(|command| command.name).collect();
        for name in DISABLED.iter().flat_map(|(_, names)| *names) {
            assert!(disabled(name).is_some(), "{name}");
            assert!(!known.contains(name) && !SPECIAL.contains(name), "{name}");
        }
    }
}
