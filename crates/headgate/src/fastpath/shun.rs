//! `headgate shun`.

use super::args::{ShunCommand, Where};
use super::text::{count, table, time};
use super::{Error, print, print_json, sight};
use addr::Prefix;
use fastpath::shun::{Entry, LONGEST, ShunError};
use serde_json::json;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// Adds to the shun list, takes off it, lists or empties it.
pub(super) fn shun(place: &Where, what: &ShunCommand) -> Result<(), Error> {
    match what {
        ShunCommand::Add {
            sources,
            file,
            lasting,
            reason,
        } => {
            let mut all = sources.clone();
            if let Some(path) = file {
                all.extend(read(path)?);
            }
            add(place, &all, *lasting, *reason)
        }
        ShunCommand::Remove { sources } => {
            let sight = sight(place)?;
            let shuns = sight.shuns().map_err(Error::Table)?;
            let mut out = String::new();
            for source in sources {
                let was_there = shuns.remove(*source)?;
                let what = if was_there {
                    "removed"
                } else {
                    "was not on the list"
                };
                out.push_str(&format!("{} {what}\n", text(*source)));
            }
            print(&out)
        }
        ShunCommand::List { limit, json } => list(place, *limit, *json),
        ShunCommand::Flush => {
            let sight = sight(place)?;
            let shuns = sight.shuns().map_err(Error::Table)?;
            let removed = shuns.flush().map_err(Error::Table)?;
            shuns.recount().map_err(Error::Table)?;
            print(&format!("{} entries removed\n", count(removed)))
        }
    }
}

fn add(place: &Where, sources: &[Prefix], lasting: Duration, reason: u32) -> Result<(), Error> {
    let sight = sight(place)?;
    let shuns = sight.shuns().map_err(Error::Table)?;
    let now = sight.now().map_err(Error::Table)?;
    // All or nothing, as far as that can be known before.
    if let Some(all) = sources.iter().find(|source| source.len() == 0) {
        return Err(ShunError::Everybody(*all).into());
    }
    for source in sources {
        shuns.add(*source, now, lasting, reason)?;
    }
    let lasting = time(lasting.min(LONGEST));
    print(&match sources {
        [one] => format!("{} is shunned for {lasting}\n", text(*one)),
        many => format!(
            "{} sources are shunned for {lasting}\n",
            count(many.len() as u64)
        ),
    })
}

fn list(place: &Where, limit: usize, json: bool) -> Result<(), Error> {
    let sight = sight(place)?;
    let shuns = sight.shuns().map_err(Error::Table)?;
    let now = sight.now().map_err(Error::Table)?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut all = 0u64;
    shuns
        .each(now, |entry| {
            all += 1;
            if entries.len() < limit {
                entries.push(entry);
            }
        })
        .map_err(Error::Table)?;
    entries.sort_by_key(|entry| (entry.source.network(), entry.source.len()));
    if json {
        let rows: Vec<_> = entries
            .iter()
            .map(|entry| {
                json!({
                    "source": text(entry.source),
                    "left": entry.left.as_secs_f64(),
                    "reason": entry.reason,
                })
            })
            .collect();
        return print_json(&rows);
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            vec![
                text(entry.source),
                time(entry.left),
                entry.reason.to_string(),
            ]
        })
        .collect();
    let mut out = table(&["SOURCE", "LEFT", "REASON"], &["LEFT", "REASON"], &rows);
    if all > entries.len() as u64 {
        out.push_str(&format!(
            "{} of {}; --limit shows more\n",
            count(entries.len() as u64),
            count(all)
        ));
    }
    print(&out)
}

/// An address without its length, a prefix with it.
fn text(source: Prefix) -> String {
    match source == Prefix::from(source.network()) {
        true => source.network().to_string(),
        false => source.to_string(),
    }
}

/// The sources in a file; what follows a # is left out.
fn read(path: &Path) -> Result<Vec<Prefix>, Error> {
    let text = match path.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(path),
    };
    let text = text.map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })?;
    let mut all = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if !text.is_empty() {
            all.push(text.parse().map_err(|source| Error::Source {
                path: path.to_owned(),
                line,
                source,
            })?);
        }
    }
    Ok(all)
}
