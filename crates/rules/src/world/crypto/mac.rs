//! Digests and what is made of them: authentication codes and keys from passphrases.

use crate::fault::Fault;
use crate::value::Value;
use aws_lc_rs::{constant_time, digest, hmac};
use md5::{Digest, Md5};
use std::rc::Rc;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum Hash {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

const NAMES: &[&str] = &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

impl Hash {
    /// By its name.
    pub(super) fn named(name: &[u8]) -> Result<Hash, Fault> {
        Ok(match name {
            b"sha256" => Hash::Sha256,
            b"sha1" => Hash::Sha1,
            b"md5" => Hash::Md5,
            b"sha224" => Hash::Sha224,
            b"sha384" => Hash::Sha384,
            b"sha512" => Hash::Sha512,
            other => return Err(Fault::bad("algorithm", other, NAMES)),
        })
    }

    /// By the name of its authentication code: `hmac-sha256`.
    pub(super) fn of_mac(name: &[u8]) -> Result<Hash, Fault> {
        let hash = name.strip_prefix(b"hmac-").map(Hash::named);
        hash.and_then(Result::ok).ok_or_else(|| {
            let all = NAMES.iter().map(|name| format!("hmac-{name}"));
            let all: Vec<String> = all.collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            Fault::bad("algorithm", name, &all)
        })
    }

    /// The digest of some data.
    pub(in crate::world) fn of(self, data: &[u8]) -> Value {
        match self.digest() {
            Some(algorithm) => Value::new(digest::digest(algorithm, data).as_ref()),
            None => Value::new(&Md5::digest(data)),
        }
    }

    /// None for MD5, which is not the library's.
    fn digest(self) -> Option<&'static digest::Algorithm> {
        Some(match self {
            Hash::Md5 => return None,
            Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha224 => &digest::SHA224,
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha384 => &digest::SHA384,
            Hash::Sha512 => &digest::SHA512,
        })
    }

    fn hmac(self) -> Option<hmac::Algorithm> {
        Some(match self {
            Hash::Md5 => return None,
            Hash::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Hash::Sha224 => hmac::HMAC_SHA224,
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha384 => hmac::HMAC_SHA384,
            Hash::Sha512 => hmac::HMAC_SHA512,
        })
    }
}

/// A key made ready for a hash function.
pub(super) enum Key {
    Library(Box<hmac::Key>),
    /// MD5 with the key's inner and outer block taken in.
    Md5(Md5, Md5),
}

/// An authentication code.
pub(super) enum Tag {
    Library(hmac::Tag),
    Md5([u8; 16]),
}

/// What a key's text is kept as, with what it was made for.
struct Ready {
    hash: Hash,
    hex: bool,
    key: Key,
}

/// Does something with a key, which is made ready once as long as its text lives.
pub(super) fn with_key<R>(
    hash: Hash,
    (text, hex): (&Value, bool),
    then: impl FnOnce(&Key) -> R,
) -> Result<R, Fault> {
    if let Some(ready) = text.remembered::<Ready>()
        && ready.hash == hash
        && ready.hex == hex
    {
        return Ok(then(&ready.key));
    }
    let key = Key::new(hash, &super::text_or_hex((text, hex))?);
    let ready = Rc::new(Ready { hash, hex, key });
    text.remember(ready.clone());
    Ok(then(&ready.key))
}

impl Key {
    fn new(hash: Hash, bytes: &[u8]) -> Key {
        if let Some(algorithm) = hash.hmac() {
            return Key::Library(Box::new(hmac::Key::new(algorithm, bytes)));
        }
        let mut block = [0; 64];
        if bytes.len() > block.len() {
            block[..16].copy_from_slice(&Md5::digest(bytes));
        } else {
            block[..bytes.len()].copy_from_slice(bytes);
        }
        let with = |pad: u8| Md5::new().chain_update(block.map(|byte| byte ^ pad));
        Key::Md5(with(0x36), with(0x5c))
    }

    pub(super) fn sign(&self, data: &[u8]) -> Tag {
        match self {
            Key::Library(key) => Tag::Library(hmac::sign(key, data)),
            Key::Md5(inner, outer) => {
                let inner = inner.clone().chain_update(data).finalize();
                Tag::Md5(outer.clone().chain_update(inner).finalize().into())
            }
        }
    }

    /// Whether the code is that of the data, in the same time wherever they differ.
    pub(super) fn verify(&self, data: &[u8], tag: &[u8]) -> bool {
        let own = self.sign(data);
        constant_time::verify_slices_are_equal(own.as_ref(), tag).is_ok()
    }
}

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        match self {
            Tag::Library(tag) => tag.as_ref(),
            Tag::Md5(bytes) => bytes,
        }
    }
}

/// An authentication code of data that comes in parts.
pub(super) enum Signing {
    Library(Box<hmac::Context>),
    Md5(Md5, Md5),
}

impl Signing {
    pub(super) fn new(key: &Key) -> Self {
        match key {
            Key::Library(key) => Signing::Library(Box::new(hmac::Context::with_key(key))),
            Key::Md5(inner, outer) => Signing::Md5(inner.clone(), outer.clone()),
        }
    }

    pub(super) fn update(&mut self, data: &[u8]) {
        match self {
            Signing::Library(context) => context.update(data),
            Signing::Md5(inner, _) => inner.update(data),
        }
    }

    pub(super) fn finish(self) -> Value {
        match self {
            Signing::Library(context) => Value::new(context.sign().as_ref()),
            Signing::Md5(inner, outer) => {
                Value::new(&outer.chain_update(inner.finalize()).finalize())
            }
        }
    }
}

/// A digest of data that comes in parts.
pub(super) enum Digesting {
    Library(Box<digest::Context>),
    Md5(Md5),
}

impl Digesting {
    pub(super) fn new(hash: Hash) -> Self {
        match hash.digest() {
            Some(algorithm) => Digesting::Library(Box::new(digest::Context::new(algorithm))),
            None => Digesting::Md5(Md5::new()),
        }
    }

    pub(super) fn update(&mut self, data: &[u8]) {
        match self {
            Digesting::Library(context) => context.update(data),
            Digesting::Md5(state) => state.update(data),
        }
    }

    pub(super) fn finish(self) -> Value {
        match self {
            Digesting::Library(context) => Value::new(context.finish().as_ref()),
            Digesting::Md5(state) => Value::new(&state.finalize()),
        }
    }
}

/// PBKDF2 (RFC 8018 section 5.2).
pub(super) fn derive(
    hash: Hash,
    passphrase: &[u8],
    salt: &[u8],
    rounds: u64,
    len: usize,
) -> Vec<u8> {
    let key = Key::new(hash, passphrase);
    let mut out = Vec::with_capacity(len + 64);
    for block in 1_u32.. {
        if out.len() >= len {
            break;
        }
        let first = key.sign(&[salt, &block.to_be_bytes()[..]].concat());
        let mut last = first.as_ref().to_vec();
        let mut sum = last.clone();
        for _ in 1..rounds {
            last = key.sign(&last).as_ref().to_vec();
            sum.iter_mut()
                .zip(&last)
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        out.extend_from_slice(&sum);
    }
    out.truncate(len);
    out
}
