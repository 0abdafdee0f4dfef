//! Origin and load from the command line: `http origin …`, `http load …`.

use clap::Parser;
use std::process::ExitCode;
use traffic::http::{Error, Stop, load, origin};

/// HTTP traffic for measuring.
#[derive(Parser)]
enum Command {
    /// Answer requests
    Origin(origin::Args),
    /// Ask
    Load(load::Args),
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), Error> {
    match command {
        Command::Origin(args) => origin::Origin::bind(&args)?.run(&Stop::default()),
        Command::Load(args) => {
            let report = load::run(&args, &Stop::default())?;
            match args.json {
                true => println!(
                    "{}",
                    serde_json::to_string_pretty(&report).unwrap_or_default()
                ),
                false => println!("{report}"),
            }
            Ok(())
        }
    }
}
