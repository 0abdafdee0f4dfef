//! The command line: wires the rooms together.
//!
//! Exit codes: 0 done; 1 it could not be done, and why stands on standard error; 2 the command line is wrong; 3 no running
//! Headgate was reached.

mod args;
mod check;
mod commands;
mod demo;
mod fast;
mod fastpath;
mod log;
mod notify;
mod privileges;
mod rule;
mod run;
mod traffic;
mod upgrade;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Schema => check::schema(),
        Command::Origin(args) => traffic::origin(&args),
        Command::DemoOrigins => demo::origins(),
        Command::Gen(args) => traffic::generate(&args),
        Command::Rule(command) => rule::rule(command),
        Command::Fastpath(args) => fastpath::fastpath(&args),
        Command::Flows(args) => fastpath::flows(&args),
        Command::Shun(args) => fastpath::shun(&args),
        Command::Version => {
            println!("headgate {}", args::VERSION);
            ExitCode::SUCCESS
        }
        Command::Steer(command) => commands::steer(command),
    }
}
