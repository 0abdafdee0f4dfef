//! RSA: signatures by PKCS #1 v1.5 and encryption to a public key (RFC 8017), with keys in PEM or DER.

use crate::fault::Fault;
use crate::value::Value;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey,
    Pkcs1PrivateDecryptingKey, Pkcs1PublicEncryptingKey, PrivateDecryptingKey, PublicEncryptingKey,
};
use aws_lc_rs::signature::{self, RsaKeyPair, UnparsedPublicKey};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What a signature with a private key takes, in steps of a rule.
pub(super) const PRIVATE: u64 = 20_000;

/// What is done with a public key, likewise.
pub(super) const PUBLIC: u64 = 1_000;

/// The digest of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Digest {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// How the text is filled up before it is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filling {
    Pkcs1,
    Oaep,
}

impl Digest {
    /// That of `rsa-sha256` and its like.
    pub(super) fn named(algorithm: &[u8]) -> Option<Self> {
        Some(match algorithm {
            b"rsa-sha1" => Digest::Sha1,
            b"rsa-sha256" => Digest::Sha256,
            b"rsa-sha384" => Digest::Sha384,
            b"rsa-sha512" => Digest::Sha512,
            _ => return None,
        })
    }
}

impl Filling {
    pub(super) fn of(padding: Option<&Value>) -> Result<Self, Fault> {
        match padding.map(Value::bytes).as_deref() {
            None | Some(b"pkcs" | b"pkcs1" | b"1") => Ok(Filling::Pkcs1),
            Some(b"oaep") => Ok(Filling::Oaep),
            Some(other) => Err(Fault::bad("padding", other, &["pkcs", "oaep"])),
        }
    }
}

/// The signature of a text.
pub(super) fn sign(digest: Digest, key: &[u8], data: &[u8]) -> Result<Value, Fault> {
    let pair = RsaKeyPair::from_pkcs8(&private_key(key)?).map_err(|_| bad_key())?;
    let padding = match digest {
        Digest::Sha256 => &signature::RSA_PKCS1_SHA256,
        Digest::Sha384 => &signature::RSA_PKCS1_SHA384,
        Digest::Sha512 => &signature::RSA_PKCS1_SHA512,
        Digest::Sha1 => return Err(Fault::error("rsa-sha1 is for CRYPTO::verify only")),
    };
    let mut signed = vec![0; pair.public_modulus_len()];
    // By PKCS #1 v1.5 the generator has no part in it.
    pair.sign(padding, &SystemRandom::new(), data, &mut signed)
        .map_err(|_| Fault::error("the key can't sign"))?;
    Ok(Value::from(signed))
}

/// Whether a signature is that of a text, by a public key or a certificate.
pub(super) fn verify(
    digest: Digest,
    key: &[u8],
    data: &[u8],
    signed: &[u8],
) -> Result<bool, Fault> {
    let parameters = match digest {
        Digest::Sha1 => &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Digest::Sha256 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        Digest::Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Digest::Sha512 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    };
    let key = public_key(key)?;
    Ok(UnparsedPublicKey::new(parameters, key)
        .verify(data, signed)
        .is_ok())
}

/// Encrypts a text to a public key or a certificate's.
pub(super) fn encrypt(filling: Filling, key: &[u8], data: &[u8]) -> Result<Value, Fault> {
    let key = PublicEncryptingKey::from_der(&public_key(key)?).map_err(|_| bad_key())?;
    let mut out = vec![0; key.key_size_bytes()];
    let done = match filling {
        Filling::Pkcs1 => Pkcs1PublicEncryptingKey::new(key)
            .and_then(|key| key.encrypt(data, &mut out).map(|text| text.len())),
        Filling::Oaep => OaepPublicEncryptingKey::new(key).and_then(|key| {
            key.encrypt(&OAEP_SHA1_MGF1SHA1, data, &mut out, None)
                .map(|text| text.len())
        }),
    };
    let len = done.map_err(|_| Fault::error("the data is too long for the key"))?;
    out.truncate(len);
    Ok(Value::from(out))
}

/// Decrypts a text by a private key.
pub(super) fn decrypt(filling: Filling, key: &[u8], data: &[u8]) -> Result<Value, Fault> {
    let key = PrivateDecryptingKey::from_pkcs8(&private_key(key)?).map_err(|_| bad_key())?;
    let mut out = vec![0; key.key_size_bytes()];
    let done = match filling {
        Filling::Pkcs1 => Pkcs1PrivateDecryptingKey::new(key)
            .and_then(|key| key.decrypt(data, &mut out).map(|text| text.len())),
        Filling::Oaep => OaepPrivateDecryptingKey::new(key).and_then(|key| {
            key.decrypt(&OAEP_SHA1_MGF1SHA1, data, &mut out, None)
                .map(|text| text.len())
        }),
    };
    let len = done.map_err(|_| Fault::error("the data can't be decrypted"))?;
    out.truncate(len);
    Ok(Value::from(out))
}

/// A private key as PKCS #8, whatever it came as.
fn private_key(text: &[u8]) -> Result<Vec<u8>, Fault> {
    match contents(text)? {
        (label, der) if label == "RSA PRIVATE KEY" => Ok(as_pkcs8(&der)),
        (_, der) => Ok(der),
    }
}

/// A public key as X.509 has it (SubjectPublicKeyInfo), of itself or of a certificate.
fn public_key(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let (_, der) = contents(text)?;
    Ok(match X509Certificate::from_der(&der) {
        Ok((_, certificate)) => certificate.public_key().raw.to_vec(),
        Err(_) => der,
    })
}

/// What a PEM text holds, and as what; DER is taken as it is.
fn contents(text: &[u8]) -> Result<(String, Vec<u8>), Fault> {
    if !text.trim_ascii_start().starts_with(b"-----BEGIN") {
        return Ok((String::new(), text.to_vec()));
    }
    let (_, pem) = parse_x509_pem(text.trim_ascii_start()).map_err(|_| bad_key())?;
    Ok((pem.label, pem.contents))
}

/// A key of PKCS #1 in the envelope of PKCS #8 (RFC 5208 section 5).
fn as_pkcs8(key: &[u8]) -> Vec<u8> {
    const VERSION: &[u8] = &[0x02, 0x01, 0x00];
    // rsaEncryption, without parameters.
    const ALGORITHM: &[u8] = &[
        0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
    ];
    tagged(0x30, &[VERSION, ALGORITHM, &tagged(0x04, key)].concat())
}

/// A value of DER.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len().to_be_bytes();
    let first = len
        .iter()
        .position(|byte| *byte != 0)
        .unwrap_or(len.len() - 1);
    let mut out = vec![tag];
    if content.len() >= 0x80 {
        out.push(0x80 | (len.len() - first) as u8);
    }
    out.extend_from_slice(&len[first..]);
    out.extend_from_slice(content);
    out
}

fn bad_key() -> Fault {
    Fault::error("the key can't be read: it is to be of RSA, in PEM or DER")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = include_bytes!("../../../../../tests/rules/rsa.pem");
    const CERTIFICATE: &[u8] = include_bytes!("../../../../../tests/rules/rsa_cert.pem");

    #[test]
    fn what_is_signed_verifies_and_nothing_else() {
        for digest in [Digest::Sha256, Digest::Sha384, Digest::Sha512] {
            let signed = sign(digest, KEY, b"data").unwrap();
            let verifies =
                |data: &[u8], signed: &[u8]| verify(digest, CERTIFICATE, data, signed).unwrap();
            assert!(verifies(b"data", &signed.bytes()));
            assert!(!verifies(b"date", &signed.bytes()));
            assert!(!verifies(b"data", b"short"));
        }
    }

    #[test]
    fn what_is_encrypted_decrypts_by_the_same_filling() {
        for filling in [Filling::Pkcs1, Filling::Oaep] {
            let secret = encrypt(filling, CERTIFICATE, b"a secret").unwrap();
            let plain = decrypt(filling, KEY, &secret.bytes()).unwrap();
            assert!(plain.is(b"a secret"));
            assert!(encrypt(filling, CERTIFICATE, &[0; 300]).is_err());
        }
    }

    #[test]
    fn keys_are_taken_in_any_envelope() {
        let (_, der) = contents(KEY).unwrap();
        let wrapped = as_pkcs8(&der);
        assert!(sign(Digest::Sha256, &wrapped, b"data").is_ok());
        let public = public_key(CERTIFICATE).unwrap();
        assert!(encrypt(Filling::Pkcs1, &public, b"data").is_ok());
    }

    #[test]
    fn what_is_no_key_is_an_error() {
        let bad: [&[u8]; 4] = [b"", b"key", b"-----BEGIN X-----", CERTIFICATE];
        for key in bad {
            assert!(sign(Digest::Sha256, key, b"data").is_err());
            assert!(decrypt(Filling::Oaep, key, b"data").is_err());
        }
        assert!(encrypt(Filling::Oaep, b"key", b"data").is_err());
        assert!(!verify(Digest::Sha256, b"key", b"data", b"signed").unwrap());
    }
}
