//! `headgate rule`: rules looked over, run against test files, and measured.

use crate::args::{RuleCheck, RuleCommand, RuleProfile, RuleTest};
use crate::commands;
use control::view::ProfiledEvent;
use proxy::rule_test::{self, Outcome};
use rules::{Diagnostic, Engine, Limits, RuleSource, Severity};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Carries a command out.
pub(crate) fn rule(command: RuleCommand) -> ExitCode {
    let done = match command {
        RuleCommand::Check(args) => check(&args),
        RuleCommand::Test(args) => test(&args),
        RuleCommand::Profile(args) => return profile(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever read the output has had enough of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with rules: whether nothing is.
fn check(args: &RuleCheck) -> io::Result<bool> {
    let mut files = HashMap::new();
    let mut sources = Vec::new();
    for path in &args.files {
        let text = std::fs::read(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        // Rules call each other's procedures by the rule's name, which is that of its file.
        let mut name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if files.contains_key(&name) {
            name = path.display().to_string();
        }
        sources.push(Arc::new(RuleSource {
            name: name.as_str().into(),
            text: text.as_slice().into(),
        }));
        files.insert(name, (path.as_path(), text));
    }
    let diagnostics = match Engine::new(Limits::default(), 0).load(&sources) {
        Ok(program) => program.warnings().to_vec(),
        Err(diagnostics) => diagnostics,
    };
    let mut found: Vec<(&Path, &[u8], &Diagnostic)> = diagnostics
        .iter()
        .filter_map(|one| {
            let (path, text) = files.get(&one.rule)?;
            Some((*path, text.as_slice(), one))
        })
        .collect();
    let place = |path: &Path| args.files.iter().position(|file| file == path);
    found.sort_by_key(|(path, _, one)| (place(path), one.line, one.column));
    let errors = count(&diagnostics, Severity::Error);
    let mut out = stdout().lock();
    if args.json {
        let all: Vec<serde_json::Value> =
            found.iter().map(|(path, _, one)| json(path, one)).collect();
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&all).map_err(io::Error::from)?
        )?;
        return Ok(errors == 0);
    }
    for (path, text, one) in &found {
        write!(out, "{}", pointed(path, text, one))?;
    }
    let warnings = count(&diagnostics, Severity::Warning);
    writeln!(
        out,
        "{}: {}, {}",
        counted(args.files.len(), "rule"),
        counted(errors, "error"),
        counted(warnings, "warning")
    )?;
    Ok(errors == 0)
}

/// Runs test files, and those of folders: whether all tests passed.
fn test(args: &RuleTest) -> io::Result<bool> {
    let began = Instant::now();
    let mut out = stdout().lock();
    let (mut passed, mut failed) = (0, 0);
    for file in test_files(&args.files)? {
        let outcomes = match rule_test::run(&file, &args.only) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                writeln!(out, "{error}")?;
                failed += 1;
                continue;
            }
        };
        for outcome in &outcomes {
            match outcome.passed() {
                true => passed += 1,
                false => failed += 1,
            }
            if !args.quiet || !outcome.passed() {
                write!(out, "{}", reported(&file, outcome))?;
            }
        }
    }
    writeln!(
        out,
        "{}, {failed} failed, in {} ms",
        counted(passed, "test") + " passed",
        began.elapsed().as_millis()
    )?;
    if passed + failed == 0 {
        writeln!(out, "there are no tests there")?;
        return Ok(false);
    }
    Ok(failed == 0)
}

/// Prints what events and commands take: of a running process, or of test files.
fn profile(args: RuleProfile) -> ExitCode {
    if args.files.is_empty() {
        return commands::rule_profile(&args.socket, args.commands, args.json);
    }
    match profile_files(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn profile_files(args: &RuleProfile) -> io::Result<bool> {
    let mut rows: Vec<ProfiledEvent> = Vec::new();
    let mut good = true;
    for file in test_files(&args.files)? {
        let runs =
            rule_test::profile(&file, args.rounds, args.commands).map_err(io::Error::other)?;
        for (outcome, profile) in runs {
            if !outcome.passed() {
                eprint!("{}", reported(&file, &outcome));
                good = false;
            }
            for row in profile {
                let row = ProfiledEvent {
                    rule: row.rule.to_string(),
                    event: row.event.name().to_owned(),
                    command: row.command.map(str::to_owned),
                    count: row.count,
                    total: row.total,
                    minimum: row.least,
                    maximum: row.most,
                };
                match rows.iter_mut().find(|other| other.is_of(&row)) {
                    Some(other) => other.add(&row),
                    None => rows.push(row),
                }
            }
        }
    }
    rows.retain(|row| row.rule != rule_test::CHECKS);
    let mut out = stdout().lock();
    if args.json {
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&rows).map_err(io::Error::from)?
        )?;
    } else {
        write!(out, "{}", table(&rows))?;
    }
    Ok(good)
}

/// Rows as F5's own timing prints them: cycles of each event of a rule, and of its commands under it.
pub(crate) fn table(rows: &[ProfiledEvent]) -> String {
    let mut rows: Vec<&ProfiledEvent> = rows.iter().collect();
    rows.sort_by(|a, b| {
        let key =
            |row: &ProfiledEvent| (row.rule.clone(), row.event.clone(), row.command.is_some());
        key(a).cmp(&key(b)).then(b.total.cmp(&a.total))
    });
    let mut out = format!(
        "{:<44} {:>12} {:>10} {:>10} {:>10}\n",
        "", "executions", "average", "minimum", "maximum"
    );
    let mut rule = None;
    for row in rows {
        if rule != Some(&row.rule) {
            // Writing to a text can't fail.
            let _ = writeln!(out, "rule {}", row.rule);
            rule = Some(&row.rule);
        }
        let name = match &row.command {
            None => format!("  {}", row.event),
            Some(command) => format!("    {command}"),
        };
        let _ = writeln!(
            out,
            "{name:<44} {:>12} {:>10} {:>10} {:>10}",
            row.count,
            shortened(row.average()),
            shortened(row.minimum),
            shortened(row.maximum)
        );
    }
    if rule.is_none() {
        out.push_str("nothing has run\n");
    } else {
        out.push_str("in cycles of the processor's clock\n");
    }
    out
}

/// A number of cycles as F5 writes it: `27.2K`.
fn shortened(cycles: u64) -> String {
    match cycles {
        0..10_000 => cycles.to_string(),
        10_000..1_000_000 => format!("{:.1}K", cycles as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", cycles as f64 / 1e6),
        _ => format!("{:.1}G", cycles as f64 / 1e9),
    }
}

fn test_files(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        match path.is_dir() {
            true => files.extend(rule_test::files(path)?),
            false => files.push(path.clone()),
        }
    }
    Ok(files)
}

/// How a test went, in one line, and what was not as expected under it.
fn reported(file: &Path, outcome: &Outcome) -> String {
    let word = if outcome.passed() { "ok  " } else { "FAIL" };
    let mut out = format!(
        "{word} {}:{}: {}\n",
        file.display(),
        outcome.line,
        outcome.name
    );
    for complaint in &outcome.complaints {
        let text = complaint.text.replace('\n', "\n         ");
        let _ = writeln!(out, "     line {}: {text}", complaint.line);
    }
    out
}

/// A diagnostic with its line, and a caret under its column.
fn pointed(path: &Path, text: &[u8], one: &Diagnostic) -> String {
    let kind = kind(one.severity);
    let mut out = format!(
        "{}:{}:{}: {kind}: {}\n",
        path.display(),
        one.line,
        one.column,
        one.message
    );
    let line = text
        .split(|byte| *byte == b'\n')
        .nth((one.line as usize).saturating_sub(1));
    if let Some(line) = line {
        let line = String::from_utf8_lossy(line);
        let before: String = line
            .chars()
            .take((one.column as usize).saturating_sub(1))
            // Tabs stay, so that the caret stands where the line's letter does.
            .map(|char| if char == '\t' { '\t' } else { ' ' })
            .collect();
        let _ = writeln!(out, "    {}\n    {before}^", line.trim_end());
    }
    if let Some(hint) = &one.hint {
        let _ = writeln!(out, "    hint: {hint}");
    }
    out
}

fn json(path: &Path, one: &Diagnostic) -> serde_json::Value {
    serde_json::json!({
        "file": path.display().to_string(),
        "line": one.line,
        "column": one.column,
        "severity": kind(one.severity),
        "message": one.message,
        "hint": one.hint,
    })
}

fn kind(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn count(diagnostics: &[Diagnostic], severity: Severity) -> usize {
    diagnostics
        .iter()
        .filter(|one| one.severity == severity)
        .count()
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_column() {
        let one = Diagnostic {
            severity: Severity::Error,
            rule: "a".to_owned(),
            line: 2,
            column: 4,
            message: "wrong".to_owned(),
            hint: Some("did you mean b?".to_owned()),
        };
        let text = b"when X {\n\t  frob x\n}\n";
        assert_eq!(
            pointed(Path::new("a.tcl"), text, &one),
            "a.tcl:2:4: error: wrong\n    \t  frob x\n    \t  ^\n    hint: did you mean b?\n"
        );
    }

    #[test]
    fn cycles_are_written_as_f5_does() {
        assert_eq!(shortened(1_499), "1499");
        assert_eq!(shortened(27_240), "27.2K");
        assert_eq!(shortened(67_600_000), "67.6M");
    }

    #[test]
    fn commands_stand_under_their_event() {
        let row = |command: Option<&str>, total| ProfiledEvent {
            rule: "r".to_owned(),
            event: "HTTP_REQUEST".to_owned(),
            command: command.map(str::to_owned),
            count: 2,
            total,
            minimum: 1,
            maximum: total,
        };
        let text = table(&[row(Some("HTTP::uri"), 20), row(None, 100)]);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[1], "rule r");
        assert!(
            lines[2].starts_with("  HTTP_REQUEST ") && lines[2].contains(" 50 "),
            "{text}"
        );
        assert!(lines[3].starts_with("    HTTP::uri "), "{text}");
    }
}
