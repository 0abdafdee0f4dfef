//! `headgate origin` and `headgate gen`: the generators of `traffic`.

use crate::args::{Generate, Generator};
use std::process::ExitCode;
use traffic::http::{Stop, load, origin as http_origin};

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

/// Generates traffic and prints a report.
pub(crate) fn generate(args: &Generate) -> ExitCode {
    let Generator::Http(args) = &args.what;
    told(match load::run(args, &Stop::default()) {
        Ok(report) if args.json => serde_json::to_string_pretty(&report)
            .map(|text| println!("{text}"))
            .map_err(|error| error.to_string()),
        Ok(report) => {
            println!("{report}");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    })
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
