//! AES in its modes.

use crate::fault::Fault;
use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    StreamingDecryptingKey, StreamingEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;

/// A cipher with its key and initialization vector.
pub(super) struct Cipher {
    mode: Mode,
    key: Vec<u8>,
    iv: Vec<u8>,
    padded: bool,
}

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Encrypt,
    Decrypt,
}

/// Data that comes in parts.
pub(super) enum Stream {
    Encrypt(Box<StreamingEncryptingKey>),
    Decrypt(Box<StreamingDecryptingKey>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Cbc,
    Cfb,
    Ctr,
    Ecb,
    Gcm,
    Ofb,
}

impl Cipher {
    /// The cipher of that name: `aes-256-cbc`.
    pub(super) fn new(name: &[u8], key: &[u8], iv: &[u8], padded: bool) -> Result<Self, Fault> {
        let bad = || {
            Fault::bad(
                "algorithm",
                name,
                &[
                    "aes-128-…",
                    "aes-192-…",
                    "aes-256-… with cbc, cfb, ctr, ecb, gcm or ofb",
                ],
            )
        };
        let rest = name.strip_prefix(b"aes-").ok_or_else(bad)?;
        let (len, mode) = match rest {
            [b'1', b'2', b'8', b'-', mode @ ..] => (16, mode),
            [b'1', b'9', b'2', b'-', mode @ ..] => (24, mode),
            [b'2', b'5', b'6', b'-', mode @ ..] => (32, mode),
            _ => return Err(bad()),
        };
        let mode = match mode {
            b"cbc" => Mode::Cbc,
            b"cfb" | b"cfb128" => Mode::Cfb,
            b"ctr" => Mode::Ctr,
            b"ecb" => Mode::Ecb,
            b"gcm" => Mode::Gcm,
            b"ofb" => Mode::Ofb,
            _ => return Err(bad()),
        };
        if key.len() != len {
            return Err(Fault::error(format!(
                "the key has {} bytes: {} needs {len}",
                key.len(),
                String::from_utf8_lossy(name)
            )));
        }
        let wanted = match mode {
            Mode::Ecb => 0,
            Mode::Gcm => 12,
            _ => 16,
        };
        // A mode without an initialization vector doesn't mind one.
        if iv.len() != wanted && mode != Mode::Ecb {
            return Err(Fault::error(format!(
                "the initialization vector has {} bytes: {} needs {wanted}",
                iv.len(),
                String::from_utf8_lossy(name)
            )));
        }
        Ok(Cipher {
            mode,
            key: key.to_vec(),
            iv: iv.to_vec(),
            padded,
        })
    }

    /// The whole of some data.
    pub(super) fn whole(&self, direction: Direction, data: &[u8]) -> Result<Vec<u8>, Fault> {
        if self.mode == Mode::Gcm {
            let done = match direction {
                Direction::Encrypt => seal_with(&self.key, &self.iv, data),
                Direction::Decrypt => open_with(&self.key, &self.iv, data),
            };
            return done.ok_or_else(|| failed(direction));
        }
        if !self.padded && matches!(self.mode, Mode::Cbc | Mode::Ecb) {
            return self
                .unpadded(direction, data)
                .map_err(|_| failed(direction));
        }
        let mut out = Vec::with_capacity(data.len() + 16);
        let mut stream = self.stream(direction)?;
        stream.update(data, &mut out)?;
        stream.finish(&mut out)?;
        Ok(out)
    }

    /// Begins with data that comes in parts.
    pub(super) fn stream(&self, direction: Direction) -> Result<Stream, Fault> {
        if self.mode == Mode::Gcm || !self.padded {
            return Err(Fault::error(
                "-ctx needs padding, and a mode other than gcm",
            ));
        }
        let key = self.unbound().map_err(|_| failed(direction))?;
        let stream = match direction {
            Direction::Encrypt => self.encrypting(key).map(Box::new).map(Stream::Encrypt),
            Direction::Decrypt => self.decrypting(key).map(Box::new).map(Stream::Decrypt),
        };
        stream.map_err(|_| failed(direction))
    }

    fn unbound(&self) -> Result<UnboundCipherKey, Unspecified> {
        let algorithm = match self.key.len() {
            16 => &AES_128,
            24 => &AES_192,
            _ => &AES_256,
        };
        UnboundCipherKey::new(algorithm, &self.key)
    }

    fn iv(&self) -> Result<FixedLength<16>, Unspecified> {
        let iv: &[u8; 16] = self.iv[..].try_into().map_err(|_| Unspecified)?;
        Ok(FixedLength::from(iv))
    }

    fn encrypting(&self, key: UnboundCipherKey) -> Result<StreamingEncryptingKey, Unspecified> {
        let context = || self.iv().map(EncryptionContext::Iv128);
        match self.mode {
            Mode::Cbc => StreamingEncryptingKey::less_safe_cbc_pkcs7(key, context()?),
            Mode::Cfb => StreamingEncryptingKey::less_safe_cfb128(key, context()?),
            Mode::Ctr => StreamingEncryptingKey::less_safe_ctr(key, context()?),
            Mode::Ofb => StreamingEncryptingKey::less_safe_ofb(key, context()?),
            Mode::Ecb => StreamingEncryptingKey::ecb_pkcs7(key),
            Mode::Gcm => Err(Unspecified),
        }
    }

    fn decrypting(&self, key: UnboundCipherKey) -> Result<StreamingDecryptingKey, Unspecified> {
        let context = || self.iv().map(DecryptionContext::Iv128);
        match self.mode {
            Mode::Cbc => StreamingDecryptingKey::cbc_pkcs7(key, context()?),
            Mode::Cfb => StreamingDecryptingKey::cfb128(key, context()?),
            Mode::Ctr => StreamingDecryptingKey::ctr(key, context()?),
            Mode::Ofb => StreamingDecryptingKey::ofb(key, context()?),
            Mode::Ecb => StreamingDecryptingKey::ecb_pkcs7(key, DecryptionContext::None),
            Mode::Gcm => Err(Unspecified),
        }
    }

    /// Whole blocks as they are.
    fn unpadded(&self, direction: Direction, data: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let mut out = data.to_vec();
        let key = self.unbound()?;
        match (direction, self.mode) {
            (Direction::Encrypt, Mode::Ecb) => {
                EncryptingKey::ecb(key)?.less_safe_encrypt(&mut out, EncryptionContext::None)?;
            }
            (Direction::Encrypt, _) => {
                let context = EncryptionContext::Iv128(self.iv()?);
                EncryptingKey::cbc(key)?.less_safe_encrypt(&mut out, context)?;
            }
            (Direction::Decrypt, Mode::Ecb) => {
                DecryptingKey::ecb(key)?.decrypt(&mut out, DecryptionContext::None)?;
            }
            (Direction::Decrypt, _) => {
                let context = DecryptionContext::Iv128(self.iv()?);
                DecryptingKey::cbc(key)?.decrypt(&mut out, context)?;
            }
        }
        Ok(out)
    }
}

impl Stream {
    pub(super) fn update(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        out.resize(start + data.len() + 16, 0);
        let room = &mut out[start..];
        let written = match self {
            Stream::Encrypt(key) => key.update(data, room).map(|done| done.written().len()),
            Stream::Decrypt(key) => key.update(data, room).map(|done| done.written().len()),
        };
        let direction = self.direction();
        out.truncate(start + written.map_err(|_| failed(direction))?);
        Ok(())
    }

    pub(super) fn finish(self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let direction = self.direction();
        let start = out.len();
        out.resize(start + 16, 0);
        let room = &mut out[start..];
        let written = match self {
            Stream::Encrypt(key) => key.finish(room).map(|(_, done)| done.written().len()),
            Stream::Decrypt(key) => key.finish(room).map(|done| done.written().len()),
        };
        out.truncate(start + written.map_err(|_| failed(direction))?);
        Ok(())
    }

    fn direction(&self) -> Direction {
        match self {
            Stream::Encrypt(_) => Direction::Encrypt,
            Stream::Decrypt(_) => Direction::Decrypt,
        }
    }
}

/// AES-GCM: the data encrypted, and its tag of 16 bytes behind it.
pub(in crate::world) fn seal_with(key: &[u8], nonce: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut out = Vec::with_capacity(data.len() + 16);
    out.extend_from_slice(data);
    gcm(key)?
        .seal_in_place_append_tag(nonce, Aad::empty(), &mut out)
        .ok()?;
    Some(out)
}

/// What [`seal_with`] was given, if nobody has changed it since.
pub(in crate::world) fn open_with(key: &[u8], nonce: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut out = sealed.to_vec();
    let len = gcm(key)?
        .open_in_place(nonce, Aad::empty(), &mut out)
        .ok()?
        .len();
    out.truncate(len);
    Some(out)
}

fn gcm(key: &[u8]) -> Option<LessSafeKey> {
    let algorithm = match key.len() {
        16 => &AES_128_GCM,
        24 => &AES_192_GCM,
        32 => &AES_256_GCM,
        _ => return None,
    };
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

fn failed(direction: Direction) -> Fault {
    Fault::error(match direction {
        Direction::Encrypt => "the data could not be encrypted",
        Direction::Decrypt => "the data could not be decrypted",
    })
}
