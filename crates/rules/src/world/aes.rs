//! `AES::`: sealing texts with a key, in a form of our own.

use super::crypto::{Hash, from_hex, open_with, random, seal_with};
use crate::command::{Command, Ctx};
use crate::fault::Fault;
use crate::value::{Chars, Value};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("AES::key", "?128|192|256?", 0, 1, key),
    Command::new("AES::encrypt", "key data", 2, 2, encrypt).differs(
        "the result is 12 random bytes, the data encrypted by AES-GCM, and a tag of 16 bytes: it can't be read on BIG-IP",
    ),
    Command::new("AES::decrypt", "key data", 2, 2, decrypt).differs(
        "reads what AES::encrypt has written here; empty where the key or the data is another",
    ),
];

fn key(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let bits = match args.first() {
        None => 128,
        Some(bits) => match bits.int() {
            Ok(bits @ (128 | 192 | 256)) => bits,
            _ => {
                return Err(Fault::bad(
                    "key length",
                    &bits.bytes(),
                    &["128", "192", "256"],
                ));
            }
        },
    };
    let key = random(ctx, (bits / 8) as usize);
    let digits: String = key
        .bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Value::from(format!("AES {bits} {digits}")))
}

fn encrypt(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (key, data) = (key_of(&args[0]), args[1].bytes());
    ctx.spend(data.len() as u64 / 64)?;
    ctx.charge(data.len() + NONCE + TAG)?;
    let nonce = random(ctx, NONCE).bytes().to_vec();
    let sealed = seal_with(&key, &nonce, &data)
        .ok_or_else(|| Fault::error("the data could not be encrypted"))?;
    Ok(Value::from([nonce, sealed].concat()))
}

fn decrypt(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let (key, data) = (key_of(&args[0]), args[1].bytes());
    ctx.spend(data.len() as u64 / 64)?;
    ctx.charge(data.len())?;
    let opened = data
        .split_at_checked(NONCE)
        .and_then(|(nonce, sealed)| open_with(&key, nonce, sealed));
    Ok(opened.map(Value::from).unwrap_or_default())
}

/// The key that `AES::key` has written, or one made of a passphrase by SHA-256.
fn key_of(text: &Value) -> Chars {
    let bytes = text.bytes();
    let written = bytes.strip_prefix(b"AES ").and_then(|rest| {
        let (bits, digits) = rest.split_at_checked(4)?;
        let key = from_hex(digits)?;
        let len = match bits {
            b"128 " => 16,
            b"192 " => 24,
            b"256 " => 32,
            _ => return None,
        };
        (key.len() == len).then_some(key)
    });
    written.unwrap_or_else(|| Chars::from_slice(&Hash::Sha256.of(&bytes).bytes()))
}

const NONCE: usize = 12;
const TAG: usize = 16;

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use crate::value::Value;

    fn call(world: &mut World, command: &str, key: &Value, data: &Value) -> Value {
        world
            .words(&[Value::from(command), key.clone(), data.clone()])
            .unwrap()
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_key_alone() {
        let mut world = World::new();
        let made = ["AES::key", "AES::key 192", "AES::key 256"].map(|c| world.run(c).unwrap());
        assert!(made[0].bytes().starts_with(b"AES 128 "));
        assert_eq!(made[2].len(), "AES 256 ".len() + 64);
        let data = Value::from("data");
        for key in made.iter().chain([&Value::from("a passphrase")]) {
            let sealed = call(&mut world, "AES::encrypt", key, &data);
            assert_ne!(sealed, call(&mut world, "AES::encrypt", key, &data));
            assert_eq!(call(&mut world, "AES::decrypt", key, &sealed), data);
            let other = Value::from("another passphrase");
            assert!(call(&mut world, "AES::decrypt", &other, &sealed).is_empty());
        }
        assert!(call(&mut world, "AES::decrypt", &made[0], &Value::from("short")).is_empty());
        world.check(&[(
            "AES::key 7",
            "!bad key length \"7\": must be 128, 192, or 256",
        )]);
    }
}
