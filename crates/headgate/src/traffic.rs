//! `headgate origin` and `headgate gen`: the generators of `traffic`.

use crate::args::{Generate, Generator};
use serde::Serialize;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;
use traffic::http::{Stop, load, origin as http_origin};
use traffic::packet::command;

/// Runs an origin until it is killed.
pub(crate) fn origin(args: &http_origin::Args) -> ExitCode {
    let served = http_origin::Origin::bind(args).and_then(|origin| {
        for address in origin.addresses() {
            eprintln!("origin: listening on {address}");
        }
        origin.run(&Stop::default())
    });
    told(served.map_err(|error| error.to_string()))
}

/// Generates traffic, or receives it, and prints a report.
pub(crate) fn generate(args: &Generate) -> ExitCode {
    let stop = match stop_for(&args.what) {
        Ok(stop) => stop,
        Err(error) => return told(Err(error.to_string())),
    };
    told(match &args.what {
        Generator::Http(args) => report(args.json, load::run(args, &stop)),
        Generator::Packets(args) => report(args.json, command::packets(args, &stop)),
        Generator::Tcp(args) => report(args.json, command::tcp(args, &stop)),
        Generator::Search(args) => report(args.json, command::search(args, &stop)),
        Generator::Receive(args) => report(args.json, command::receive(args, &stop)),
    })
}

/// What ends a generator early. Those of packets then say what they have seen and leave nothing in the kernel behind.
fn stop_for(what: &Generator) -> io::Result<Stop> {
    match what {
        Generator::Http(_) => Ok(Stop::default()),
        _ => Stop::at_signals(),
    }
}

fn report<R: Serialize + Display, E: Display>(
    json: bool,
    result: Result<R, E>,
) -> Result<(), String> {
    match result {
        Ok(report) if json => serde_json::to_string_pretty(&report)
            .map(|text| println!("{text}"))
            .map_err(|error| error.to_string()),
        Ok(report) => {
            println!("{report}");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn told(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
