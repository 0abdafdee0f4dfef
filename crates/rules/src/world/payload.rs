//! Bytes that rules hold back, as `HTTP::payload`, `TCP::payload` and `UDP::payload` read and change them.

use crate::fault::Fault;
use crate::flow::Held;
use crate::value::Value;

/// Runs `payload` in any of its forms, but for those of one protocol alone.
pub(super) fn payload(command: &str, held: &mut Held, args: &[Value]) -> Result<Value, Fault> {
    match args {
        [] => Ok(held.bytes.clone()),
        [word] if word.is(b"length") => Ok(held.bytes.len().into()),
        [length] => Ok(part(held, 0, number(length)?)),
        [offset, length] => Ok(part(held, number(offset)?, number(length)?)),
        [word, offset, length, data] if word.is(b"replace") => {
            replace(held, number(offset)?, number(length)?, data);
            Ok(Value::Empty)
        }
        _ => Err(Fault::usage(&format!(
            "{command} ?length? | offset length | length | replace offset length data"
        ))),
    }
}

/// How many bytes such a command may make anew.
pub(super) fn growth(args: &[Value]) -> usize {
    match args {
        [_, _, _, data] => data.len(),
        _ => 0,
    }
}

/// A count of bytes that may be left out.
pub(super) fn count(arg: Option<&Value>) -> Result<Option<u64>, Fault> {
    arg.map(|arg| number(arg).map(|n| n as u64)).transpose()
}

fn number(arg: &Value) -> Result<usize, Fault> {
    usize::try_from(arg.int()?)
        .map_err(|_| Fault::error(format!("Illegal argument. \"{}\" is negative", arg.lossy())))
}

fn part(held: &Held, offset: usize, length: usize) -> Value {
    let bytes = held.bytes.bytes();
    let start = offset.min(bytes.len());
    let end = offset.saturating_add(length).min(bytes.len());
    if start == 0 && end == bytes.len() {
        return held.bytes.clone();
    }
    Value::new(&bytes[start..end])
}

fn replace(held: &mut Held, offset: usize, length: usize, data: &Value) {
    held.changed = true;
    let new = {
        let bytes = held.bytes.bytes();
        let start = offset.min(bytes.len());
        let end = offset.saturating_add(length).min(bytes.len());
        if start == 0 && end == bytes.len() {
            data.clone()
        } else {
            [&bytes[..start], &data.bytes(), &bytes[end..]]
                .concat()
                .into()
        }
    };
    held.bytes = new;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(held: &mut Held, line: &str) -> String {
        let words = Value::from(line).list().unwrap().to_vec();
        payload("P", held, &words).map_or_else(|_| "error".into(), |value| value.lossy())
    }

    #[test]
    fn payload_is_read_whole_and_in_parts() {
        let mut held = Held {
            bytes: Value::from("0123456789"),
            ..Held::default()
        };
        for (line, gives) in [
            ("", "0123456789"),
            ("length", "10"),
            ("4", "0123"),
            ("40", "0123456789"),
            ("3 4", "3456"),
            ("8 9223372036854775807", "89"),
            ("20 1", ""),
            ("-1", "error"),
            ("1 -1", "error"),
            ("1 2 3", "error"),
        ] {
            assert_eq!(run(&mut held, line), gives, "{line}");
        }
        assert!(!held.changed);
    }

    #[test]
    fn payload_is_replaced_in_parts_and_grown_at_its_ends() {
        let mut held = Held {
            bytes: Value::from("0123456789"),
            ..Held::default()
        };
        for (line, becomes) in [
            ("replace 2 3 ab", "01ab56789"),
            ("replace 0 0 >", ">01ab56789"),
            ("replace 10 0 <", ">01ab56789<"),
            ("replace 99 9 !", ">01ab56789<!"),
            ("replace 3 99 {}", ">01"),
            ("replace 0 99 new", "new"),
        ] {
            assert_eq!(run(&mut held, line), "", "{line}");
            assert_eq!(held.bytes.lossy(), becomes, "{line}");
        }
        assert!(held.changed);
    }
}
