//! `headgate check` and `headgate schema`.

use crate::args::Config;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// Tells whether a configuration is good, and if not, all that is wrong.
pub(crate) fn check(config: &Config) -> ExitCode {
    let path = config.path();
    match control::read(&path).0 {
        Ok(config) => {
            let problems = proxy::check_rules(&config);
            if !problems.is_empty() {
                for problem in &problems {
                    eprintln!("{problem}");
                }
                eprintln!("{}: {}", path.display(), counted(problems.len(), "error"));
                return ExitCode::FAILURE;
            }
            if let Err(error) = fastpath::fits(&config) {
                eprintln!("{error}");
                eprintln!("{}: 1 error", path.display());
                return ExitCode::FAILURE;
            }
            println!("{}: ok: {}", path.display(), summary(&config));
            ExitCode::SUCCESS
        }
        Err(errors) => {
            eprintln!("{errors}");
            let count = errors.0.len();
            eprintln!("{}: {}", path.display(), counted(count, "error"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the JSON Schema of the configuration.
pub(crate) fn schema() -> ExitCode {
    let schema = model::json_schema();
    match writeln!(stdout().lock(), "{schema:#}") {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has had enough.
        Err(_) => ExitCode::FAILURE,
    }
}

fn summary(config: &model::Config) -> String {
    let members = config.pools.values().map(|pool| pool.members.len()).sum();
    [
        counted(config.virtuals.len(), "virtual"),
        counted(config.pools.len(), "pool"),
        counted(members, "member"),
        counted(config.monitors.len(), "monitor"),
        counted(config.tls_profiles.len(), "TLS profile"),
        counted(config.address_lists.len(), "address list"),
    ]
    .join(", ")
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
