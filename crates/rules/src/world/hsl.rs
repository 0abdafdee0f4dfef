//! `HSL::`: log data sent straight to the members of a pool.

use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::host::LogTarget;
use crate::value::Value;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "HSL::open",
        "?-proto UDP|TCP? -pool name | -publisher name",
        2,
        4,
        open,
    )
    .differs("the handle is a number"),
    Command::new("HSL::send", "handle data", 2, 2, send)
        .differs("gives 0 where the data had to be thrown away"),
];

fn open(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let usage = || Fault::usage("HSL::open ?-proto UDP|TCP? -pool name | -publisher name");
    let mut tcp = false;
    let mut name = None;
    for pair in args.chunks(2) {
        let [option, value] = pair else {
            return Err(usage());
        };
        match &*option.bytes() {
            b"-proto" => {
                tcp = match &*value.bytes().to_ascii_uppercase() {
                    b"TCP" => true,
                    b"UDP" => false,
                    _ => return Err(Fault::bad("protocol", &value.bytes(), &["UDP", "TCP"])),
                }
            }
            // A pool has to be there; publishers are the host's alone.
            b"-pool" => name = Some(super::pool::find_pool(ctx, value)?.name.as_bytes().to_vec()),
            b"-publisher" => name = Some(value.bytes().to_vec()),
            other => {
                return Err(Fault::bad(
                    "option",
                    other,
                    &["-proto", "-pool", "-publisher"],
                ));
            }
        }
    }
    let pool = name.ok_or_else(usage)?;
    match ctx.host.open_log(LogTarget { tcp, pool }) {
        Ok(handle) => Ok(Value::Int(handle as i64)),
        Err(why) => Err(Fault::error(format!("HSL::open: {why}"))),
    }
}

fn send(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let handle = args[0].int().ok().and_then(|int| u64::try_from(int).ok());
    let Some(handle) = handle else {
        return Err(Fault::error(format!(
            "invalid handle \"{}\"",
            args[0].lossy()
        )));
    };
    Ok(Value::from(ctx.host.send_log(handle, &args[1].bytes())))
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;

    #[test]
    fn data_goes_to_the_pool_that_was_opened() {
        let mut world = World::new();
        world.pool("logs", &[("10.0.0.1:514", true)]);
        world.check(&[
            ("HSL::open -proto tcp -pool logs", "1"),
            ("HSL::open -pool /Common/logs", "2"),
            ("HSL::open -publisher pub", "3"),
            ("HSL::send 1 {<190> hello}", "1"),
            ("HSL::send x y", "!invalid handle \"x\""),
            ("HSL::open -pool none", "!pool \"none\" not found"),
            ("HSL::open -proto tcp", "!wrong # args: should be \"HSL::open ?-proto UDP|TCP? -pool name | -publisher name\""),
            ("HSL::open -proto sctp -pool logs", "!bad protocol \"sctp\": must be UDP or TCP"),
        ]);
        let targets = &world.host.log_targets;
        assert!(targets[0].tcp && !targets[1].tcp);
        assert_eq!(targets[1].pool, b"logs");
        assert_eq!(world.host.sent, [(1, b"<190> hello".to_vec())]);
    }
}
