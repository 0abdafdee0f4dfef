//! What can be said on the command line.

use crate::fastpath::args::{Fastpath, Flows, Shun};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// The version of the program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An application delivery controller.
#[derive(Parser)]
#[command(
    name = "headgate",
    version,
    after_help = "Exit codes: 0 done, 1 not done, 2 wrong command line, 3 no running Headgate was reached"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve what a configuration says
    Run(Run),
    /// Tell whether a configuration is good, and if not, all that is wrong
    Check(Config),
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    #[command(flatten)]
    Steer(Steer),
    /// Run an HTTP origin, for trials and measurements
    Origin(traffic::http::origin::Args),
    /// Run the two origins of the quickstart
    DemoOrigins,
    /// Generate traffic
    Gen(Box<Generate>),
    /// Look rules over, test them, measure them
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Look at the fast path, or take it off its interfaces
    Fastpath(Fastpath),
    /// List, count and end flows of the fast path
    Flows(Flows),
    /// Have the fast path drop all packets of a source
    Shun(Shun),
    /// Print the version
    Version,
}

/// What is said to a Headgate that runs.
#[derive(Subcommand)]
pub(crate) enum Steer {
    /// Have the configuration read anew
    Reload(Socket),
    /// Have the process replaced by the program that now stands in its file, losing no connection
    Upgrade(Socket),
    /// Show virtuals, pools and members
    Status(Status),
    /// Show what is going on, live
    Top(Top),
    /// Print all counters
    Counters(Socket),
    /// Have a member finish what it has and take nothing new
    Drain(Member),
    /// Have a member take traffic
    Enable(Member),
    /// Have a member take nothing
    Disable(Member),
    /// Set a member's weight
    Weight(Weight),
}

#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) config: Config,
    /// File to write the process's number to
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Config {
    /// The configuration
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    option: Option<PathBuf>,
    #[arg(
        value_name = "FILE",
        conflicts_with = "option",
        required_unless_present = "option"
    )]
    file: Option<PathBuf>,
}

impl Config {
    /// The file, however it was given.
    pub(crate) fn path(&self) -> PathBuf {
        // One of the two is required.
        self.option
            .clone()
            .or_else(|| self.file.clone())
            .unwrap_or_default()
    }
}

/// Where the running process is reached.
#[derive(Args, Clone, Default)]
pub(crate) struct Socket {
    /// The admin socket. Without it: that of the configuration given, or of the environment variable HEADGATE_SOCKET, or
    /// /run/headgate/admin.sock
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The configuration that names the admin socket
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) socket: Socket,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) socket: Socket,
    /// Print one picture of one second and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Args)]
pub(crate) struct Member {
    /// The member
    #[arg(value_name = "POOL/MEMBER")]
    pub(crate) member: String,
    #[command(flatten)]
    pub(crate) socket: Socket,
}

#[derive(Args)]
pub(crate) struct Weight {
    /// The member
    #[arg(value_name = "POOL/MEMBER")]
    pub(crate) member: String,
    /// Its share relative to the others; 0 for nothing new
    #[arg(value_parser = clap::value_parser!(u16).range(0..=256))]
    pub(crate) weight: u16,
    #[command(flatten)]
    pub(crate) socket: Socket,
}

/// What can be done with rules.
#[derive(Subcommand)]
pub(crate) enum RuleCommand {
    /// Tell what is wrong with rules, with line and column
    Check(RuleCheck),
    /// Run test files without a network, and say what is not as they expect
    Test(RuleTest),
    /// Print how many cycles events and commands take: of the process that runs, or of test files
    Profile(RuleProfile),
}

#[derive(Args)]
pub(crate) struct RuleCheck {
    /// The rules, as one virtual has them
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct RuleTest {
    /// Test files, and folders with files that end in .test
    #[arg(value_name = "PATH", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Run only tests whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) only: String,
    /// Print only what fails, and how many there were
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Args)]
pub(crate) struct RuleProfile {
    /// Test files to be run for it; without any, the process that runs is asked
    #[arg(value_name = "PATH")]
    pub(crate) files: Vec<PathBuf>,
    /// How often each test is run
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Show commands as well; counting them makes events slower
    #[arg(long)]
    pub(crate) commands: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) socket: Socket,
}

#[derive(Args)]
pub(crate) struct Generate {
    #[command(subcommand)]
    pub(crate) what: Generator,
}

#[derive(Subcommand)]
pub(crate) enum Generator {
    /// HTTP requests, and a report of how they were answered
    Http(traffic::http::load::Args),
    /// Frames of eBPF, and a report of what of them arrived
    Packets(traffic::packet::command::PacketsArgs),
    /// TCP connections acted out from both ends, and a report of how they went
    Tcp(traffic::packet::command::TcpArgs),
    /// The highest rate at which nothing is lost
    Search(traffic::packet::command::SearchArgs),
    /// Count the frames that a generator elsewhere sends
    Receive(traffic::packet::command::ReceiveArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_configuration_can_be_given_with_and_without_its_flag() {
        for words in [
            &["headgate", "check", "a.yaml"][..],
            &["headgate", "check", "-c", "a.yaml"],
        ] {
            let Ok(Cli {
                command: Command::Check(config),
            }) = Cli::try_parse_from(words)
            else {
                panic!("{words:?}");
            };
            assert_eq!(config.path(), PathBuf::from("a.yaml"));
        }
        assert!(Cli::try_parse_from(["headgate", "check"]).is_err());
    }
}
