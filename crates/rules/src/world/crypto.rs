//! `CRYPTO::`: digests, message authentication codes, ciphers and keys.
//!
//! Signing with a key that is used again and again is quick: what a key's text is made into is kept with it.

mod cipher;
mod mac;
mod rsa;

pub(super) use cipher::{open_with, seal_with};
pub(super) use mac::Hash;

use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::{Bytes, Chars, Value};
use cipher::{Cipher, Direction, Stream};
use mac::{Digesting, Signing};
use rsa::{Digest, Filling};
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("CRYPTO::sign", "?options? ?data?", 1, ANY, sign)
        .differs("-alg hmac-md5, hmac-sha1, -sha224, -sha256, -sha384, -sha512, and rsa-sha256, -sha384 and -sha512 with a private key in PEM or DER; no RIPEMD-160"),
    Command::new("CRYPTO::verify", "?options? ?data?", 1, ANY, verify)
        .differs("the algorithms of CRYPTO::sign and rsa-sha1, for RSA with a public key or a certificate; -ctx is not known"),
    Command::new("CRYPTO::hash", "?options? ?data?", 1, ANY, hash)
        .differs("-alg md5, sha1, sha224, sha256, sha384, sha512; no RIPEMD-160"),
    Command::new("CRYPTO::encrypt", "?options? ?data?", 1, ANY, encrypt).differs(
        "-alg aes-128, -192 and -256 with -cbc, -cfb, -ctr, -ecb, -ofb and -gcm (12 bytes of -iv, the tag follows the data); \
         rsa-pub with a public key or a certificate and -padding pkcs or oaep; other ciphers are not offered",
    ),
    Command::new("CRYPTO::decrypt", "?options? ?data?", 1, ANY, decrypt)
        .differs("the algorithms of CRYPTO::encrypt, and rsa-priv instead of rsa-pub"),
    Command::new("CRYPTO::keygen", "-alg random|pbkdf2-md5 ?options?", 2, ANY, keygen)
        .differs("-alg random, pbkdf2-md5, and of our own pbkdf2-sha1 and pbkdf2-sha256; no RSA"),
];

/// What stands before the data.
#[derive(Default)]
struct Options<'a> {
    algorithm: Option<&'a Value>,
    key: Option<(&'a Value, bool)>,
    iv: Option<(&'a Value, bool)>,
    salt: Option<(&'a Value, bool)>,
    context: Option<&'a Value>,
    signature: Option<&'a Value>,
    padding: Option<&'a Value>,
    passphrase: Option<&'a Value>,
    len: Option<&'a Value>,
    rounds: Option<&'a Value>,
    last: bool,
    data: Option<&'a Value>,
}

impl<'a> Options<'a> {
    fn read(args: &'a [Value]) -> Result<Self, Fault> {
        let mut options = Options::default();
        let mut at = 0;
        while at < args.len() {
            let word = args[at].bytes();
            if &*word == b"-final" {
                options.last = true;
                at += 1;
                continue;
            }
            // The last word is the data, whatever it looks like.
            let Some(value) = args.get(at + 1) else {
                options.data = Some(&args[at]);
                break;
            };
            match &*word {
                b"-alg" => options.algorithm = Some(value),
                b"-key" => options.key = Some((value, false)),
                b"-keyhex" => options.key = Some((value, true)),
                b"-iv" => options.iv = Some((value, false)),
                b"-ivhex" => options.iv = Some((value, true)),
                b"-salt" => options.salt = Some((value, false)),
                b"-salthex" => options.salt = Some((value, true)),
                b"-ctx" => options.context = Some(value),
                b"-signature" => options.signature = Some(value),
                b"-padding" => options.padding = Some(value),
                b"-passphrase" => options.passphrase = Some(value),
                b"-len" => options.len = Some(value),
                b"-rounds" => options.rounds = Some(value),
                b"--" => {
                    options.data = Some(value);
                    at += 2;
                    if at < args.len() {
                        return Err(Fault::error("too many words behind --"));
                    }
                    break;
                }
                other => {
                    return Err(Fault::error(format!(
                        "bad option \"{}\"",
                        String::from_utf8_lossy(other)
                    )));
                }
            }
            at += 2;
        }
        Ok(options)
    }

    fn algorithm(&self) -> Result<Bytes<'a>, Fault> {
        let missing = || Fault::error("-alg is missing");
        Ok(self.algorithm.ok_or_else(missing)?.bytes())
    }

    fn data(&self) -> Bytes<'a> {
        match self.data {
            Some(data) => data.bytes(),
            None => Bytes::Lent(b""),
        }
    }
}

fn sign(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let options = Options::read(args)?;
    let data = options.data();
    ctx.spend(data.len() as u64 / 64)?;
    if let Some(digest) = options
        .algorithm
        .and_then(|name| Digest::named(&name.bytes()))
    {
        ctx.spend(rsa::PRIVATE)?;
        return rsa::sign(
            digest,
            &text_or_hex(options.key.ok_or_else(no_key)?)?,
            &data,
        );
    }
    let Some(name) = options.context else {
        let hash = Hash::of_mac(&options.algorithm()?)?;
        let key = options.key.ok_or_else(no_key)?;
        return mac::with_key(hash, key, |key| Value::new(key.sign(&data).as_ref()));
    };
    let make = || {
        let hash = Hash::of_mac(&options.algorithm()?)?;
        mac::with_key(hash, options.key.ok_or_else(no_key)?, Signing::new)
    };
    streamed(
        ctx,
        name,
        options.last,
        make,
        |signing: &mut Signing| {
            signing.update(&data);
        },
        Signing::finish,
    )
}

fn verify(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let options = Options::read(args)?;
    let data = options.data();
    ctx.spend(data.len() as u64 / 64)?;
    let signature = options
        .signature
        .ok_or_else(|| Fault::error("-signature is missing"))?
        .bytes();
    if let Some(digest) = options
        .algorithm
        .and_then(|name| Digest::named(&name.bytes()))
    {
        ctx.spend(rsa::PUBLIC)?;
        let key = text_or_hex(options.key.ok_or_else(no_key)?)?;
        return Ok(Value::from(rsa::verify(digest, &key, &data, &signature)?));
    }
    let hash = Hash::of_mac(&options.algorithm()?)?;
    let key = options.key.ok_or_else(no_key)?;
    mac::with_key(hash, key, |key| Value::from(key.verify(&data, &signature)))
}

fn hash(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    let options = Options::read(args)?;
    let data = options.data();
    ctx.spend(data.len() as u64 / 64)?;
    let Some(name) = options.context else {
        return Ok(Hash::named(&options.algorithm()?)?.of(&data));
    };
    let make = || Ok(Digesting::new(Hash::named(&options.algorithm()?)?));
    streamed(
        ctx,
        name,
        options.last,
        make,
        |digesting: &mut Digesting| {
            digesting.update(&data);
        },
        Digesting::finish,
    )
}

fn encrypt(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    crypt(ctx, args, Direction::Encrypt)
}

fn decrypt(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    crypt(ctx, args, Direction::Decrypt)
}

fn crypt(ctx: &mut Ctx<'_>, args: &[Value], direction: Direction) -> Result<Value, Fault> {
    let options = Options::read(args)?;
    let data = options.data();
    ctx.spend(data.len() as u64 / 64)?;
    ctx.charge(data.len() + 32)?;
    if let Some(b"rsa-pub" | b"rsa-priv") = options.algorithm.map(Value::bytes).as_deref() {
        return by_rsa(ctx, &options, direction);
    }
    let padded = match options.padding.map(Value::bytes).as_deref() {
        None | Some(b"pkcs" | b"pkcs7" | b"1") => true,
        Some(b"none" | b"0") => false,
        Some(other) => return Err(Fault::bad("padding", other, &["pkcs", "none"])),
    };
    let cipher = || -> Result<Cipher, Fault> {
        let key = options.key.ok_or_else(no_key)?;
        let iv = match options.iv {
            Some(iv) => text_or_hex(iv)?,
            None => Chars::new(),
        };
        Cipher::new(&options.algorithm()?, &text_or_hex(key)?, &iv, padded)
    };
    let Some(name) = options.context else {
        return Ok(Value::from(cipher()?.whole(direction, &data)?));
    };
    let holder = match ctx.exists(name).then(|| ctx.get(name)) {
        Some(held) => held?.remembered::<Held<Stream>>(),
        None => None,
    };
    let holder = match holder {
        Some(holder) => holder,
        None => hold(ctx, name, cipher()?.stream(direction)?)?,
    };
    let mut out = Vec::with_capacity(data.len() + 16);
    let mut held = holder.0.borrow_mut();
    held.as_mut()
        .ok_or_else(|| Fault::error("the context is finished"))?
        .update(&data, &mut out)?;
    if options.last
        && let Some(stream) = held.take()
    {
        stream.finish(&mut out)?;
    }
    Ok(Value::from(out))
}

fn by_rsa(ctx: &mut Ctx<'_>, options: &Options<'_>, direction: Direction) -> Result<Value, Fault> {
    if options.context.is_some() {
        return Err(Fault::error("there is no -ctx for RSA"));
    }
    let filling = Filling::of(options.padding)?;
    let key = text_or_hex(options.key.ok_or_else(no_key)?)?;
    match (direction, &*options.algorithm()?) {
        (Direction::Encrypt, b"rsa-pub") => {
            ctx.spend(rsa::PUBLIC)?;
            rsa::encrypt(filling, &key, &options.data())
        }
        (Direction::Decrypt, b"rsa-priv") => {
            ctx.spend(rsa::PRIVATE)?;
            rsa::decrypt(filling, &key, &options.data())
        }
        _ => Err(Fault::error(
            "what is encrypted by rsa-pub is decrypted by rsa-priv",
        )),
    }
}

fn keygen(ctx: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    // There is no data here: an empty last word keeps every option in front.
    let mut words = args.to_vec();
    words.push(Value::Empty);
    let options = Options::read(&words)?;
    let bits = match options.len {
        Some(len) => len.int()?,
        None => 128,
    };
    if bits <= 0 || bits % 8 != 0 || bits > MOST_BITS {
        return Err(Fault::error(format!(
            "invalid length \"{bits}\": must be a multiple of 8 up to {MOST_BITS}"
        )));
    }
    let len = (bits / 8) as usize;
    ctx.charge(len)?;
    let algorithm = options.algorithm()?;
    let hash = match &*algorithm {
        b"random" => return Ok(random(ctx, len)),
        b"pbkdf2-md5" => Hash::Md5,
        b"pbkdf2-sha1" => Hash::Sha1,
        b"pbkdf2-sha256" => Hash::Sha256,
        other => return Err(Fault::bad("algorithm", other, &["random", "pbkdf2-md5"])),
    };
    let missing = || Fault::error("-passphrase is missing");
    let passphrase = options.passphrase.ok_or_else(missing)?.bytes();
    let salt = match options.salt {
        Some(salt) => text_or_hex(salt)?,
        None => Chars::new(),
    };
    let rounds = match options.rounds {
        Some(rounds) => rounds.int()?,
        None => 1,
    };
    if rounds <= 0 {
        return Err(Fault::error(format!(
            "invalid number of rounds \"{rounds}\""
        )));
    }
    // A round takes about as long as twenty steps of a rule.
    let blocks = len.div_ceil(16) as u64;
    ctx.spend((rounds as u64).saturating_mul(20).saturating_mul(blocks))?;
    Ok(Value::from(mac::derive(
        hash,
        &passphrase,
        &salt,
        rounds as u64,
        len,
    )))
}

/// Random bytes.
pub(super) fn random(ctx: &mut Ctx<'_>, len: usize) -> Value {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&ctx.host.random().to_le_bytes());
    }
    bytes.truncate(len);
    Value::from(bytes)
}

/// What a variable that is given as `-ctx` holds.
struct Held<T>(RefCell<Option<T>>);

/// Goes on with what is under way in the variable `name`, or begins it.
fn streamed<T: 'static>(
    ctx: &mut Ctx<'_>,
    name: &Value,
    last: bool,
    make: impl FnOnce() -> Result<T, Fault>,
    update: impl FnOnce(&mut T),
    finish: impl FnOnce(T) -> Value,
) -> Result<Value, Fault> {
    let holder = match ctx.exists(name).then(|| ctx.get(name)) {
        Some(held) => held?.remembered::<Held<T>>(),
        None => None,
    };
    let holder = match holder {
        Some(holder) => holder,
        None => hold(ctx, name, make()?)?,
    };
    let mut held = holder.0.borrow_mut();
    let state = held.as_mut();
    update(state.ok_or_else(|| Fault::error("the context is finished"))?);
    if !last {
        return Ok(Value::Empty);
    }
    Ok(held.take().map(finish).unwrap_or_default())
}

fn hold<T: 'static>(ctx: &mut Ctx<'_>, name: &Value, state: T) -> Result<Rc<Held<T>>, Fault> {
    let holder = Rc::new(Held(RefCell::new(Some(state))));
    let value = Value::from("CRYPTO context");
    value.remember(holder.clone());
    ctx.set(name, value)?;
    Ok(holder)
}

/// A text, or the bytes that its hexadecimal digits stand for.
fn text_or_hex((value, hex): (&Value, bool)) -> Result<Chars, Fault> {
    let bytes = value.bytes();
    if !hex {
        return Ok(Chars::from_slice(&bytes));
    }
    from_hex(&bytes).ok_or_else(|| {
        Fault::error(format!(
            "expected hexadecimal digits but got \"{}\"",
            value.lossy()
        ))
    })
}

/// The bytes that hexadecimal digits stand for.
pub(super) fn from_hex(digits: &[u8]) -> Option<Chars> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits
        .chunks_exact(2)
        .map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8))
        .collect()
}

fn no_key() -> Fault {
    Fault::error("-key or -keyhex is missing")
}

/// Bits of the longest key that is made.
const MOST_BITS: i64 = 65_536;

#[cfg(test)]
mod tests;
