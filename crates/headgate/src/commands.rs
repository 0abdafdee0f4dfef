//! What is said to a running process, through its admin socket.

use crate::args::{Socket, Steer};
use control::client::{Client, ClientError, segment};
use control::status::Picture;
use control::top::{self, TopError};
use control::view::{Counters, Done, MemberChange, MemberState, Pool, ProfiledEvent};
use std::env;
use std::io::{self, IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

/// Where the admin socket is if nobody says otherwise, as the service's unit has it.
const DEFAULT_SOCKET: &str = "/run/headgate/admin.sock";

/// No running Headgate was reached.
const UNREACHED: u8 = 3;

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{0}")]
    Config(#[from] model::Errors),
    #[error("{0} has no `admin.socket`: there is no way to reach the process that runs by it")]
    NoSocket(PathBuf),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Top(#[from] TopError),
    #[error("there is no member {asked:?}; write POOL/MEMBER. There are: {}", .known.join(", "))]
    NoMember { asked: String, known: Vec<String> },
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Carries out a command.
pub(crate) fn steer(command: Steer) -> ExitCode {
    report(carry_out(command))
}

/// Prints what the rules of the running process take.
pub(crate) fn rule_profile(socket: &Socket, commands: bool, json: bool) -> ExitCode {
    let ask = || {
        let mut rows: Vec<ProfiledEvent> = client(socket)?.get("/v1/rules/profile")?;
        rows.retain(|row| commands || row.command.is_none());
        match json {
            true => print_json(&rows),
            false => print(&crate::rule::table(&rows)),
        }
    };
    report(ask())
}

fn report(done: Result<(), CommandError>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has had enough of it.
        Err(CommandError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            match error {
                CommandError::Client(ClientError::Unreachable { .. })
                | CommandError::Top(TopError::Client(ClientError::Unreachable { .. })) => {
                    ExitCode::from(UNREACHED)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn carry_out(command: Steer) -> Result<(), CommandError> {
    match command {
        Steer::Reload(socket) => have_done(&socket, "/v1/reload"),
        Steer::Upgrade(socket) => have_done(&socket, "/v1/upgrade"),
        Steer::Status(args) => {
            let picture = Picture::take(&client(&args.socket)?)?;
            match args.json {
                true => print_json(&picture),
                false => print(&picture.render(colour())),
            }
        }
        Steer::Top(args) => {
            let client = client(&args.socket)?;
            match args.once || !stdout().is_terminal() {
                true => top::once(&client, &mut stdout().lock(), colour())?,
                false => top::live(&client, colour())?,
            }
            Ok(())
        }
        Steer::Counters(socket) => {
            let counters: Counters = client(&socket)?.get("/v1/counters")?;
            print_json(&counters)
        }
        Steer::Drain(args) => set_state(&args.socket, &args.member, MemberState::Drain),
        Steer::Enable(args) => set_state(&args.socket, &args.member, MemberState::Enabled),
        Steer::Disable(args) => set_state(&args.socket, &args.member, MemberState::Disabled),
        Steer::Weight(args) => {
            let change = MemberChange {
                weight: Some(args.weight),
                ..MemberChange::default()
            };
            set(&args.socket, &args.member, change)
        }
    }
}

fn client(at: &Socket) -> Result<Client, CommandError> {
    if let Some(path) = &at.socket {
        return Ok(Client::new(path));
    }
    if let Some(path) = &at.config {
        let socket = control::read(path).0?.admin.socket;
        return socket
            .map(Client::new)
            .ok_or_else(|| CommandError::NoSocket(path.clone()));
    }
    let variable = env::var_os("HEADGATE_SOCKET").filter(|path| !path.is_empty());
    Ok(Client::new(
        variable.unwrap_or_else(|| DEFAULT_SOCKET.into()),
    ))
}

fn have_done(socket: &Socket, path: &str) -> Result<(), CommandError> {
    let done: Done = client(socket)?.send("POST", path, None::<&()>)?;
    print(&format!("{}\n", done.message))
}

fn set_state(socket: &Socket, member: &str, state: MemberState) -> Result<(), CommandError> {
    let change = MemberChange {
        state: Some(state),
        ..MemberChange::default()
    };
    set(socket, member, change)
}

fn set(socket: &Socket, asked: &str, change: MemberChange) -> Result<(), CommandError> {
    let client = client(socket)?;
    let pools: Vec<Pool> = client.get("/v1/pools")?;
    // Names may have slashes, so that the text alone does not tell where the pool's ends.
    let members = || {
        pools
            .iter()
            .flat_map(|p| p.members.iter().map(move |m| (p, m)))
    };
    let found = members().find(|(pool, member)| {
        let rest = asked
            .strip_prefix(&*pool.name)
            .and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|rest| rest == member.name || rest == member.address)
    });
    let Some((pool, _)) = found else {
        return Err(CommandError::NoMember {
            asked: asked.to_owned(),
            known: members()
                .map(|(pool, member)| format!("{}/{}", pool.name, member.name))
                .collect(),
        });
    };
    let member = &asked[pool.name.len() + 1..];
    let path = format!(
        "/v1/pools/{}/members/{}",
        segment(&pool.name),
        segment(member)
    );
    let after: Pool = client.send("PATCH", &path, Some(&change))?;
    let members = after
        .members
        .iter()
        .filter(|m| m.name == member || m.address == member);
    for now in members {
        let condition = format!("{:?}", now.condition).to_lowercase();
        print(&format!(
            "{}/{} {}: {condition}, weight {}, {} active\n",
            after.name, now.name, now.address, now.weight, now.active
        ))?;
    }
    Ok(())
}

fn colour() -> bool {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    stdout().is_terminal() && !unwanted
}

fn print_json(value: &impl serde::Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    print(&format!("{text}\n"))
}

fn print(text: &str) -> Result<(), CommandError> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
