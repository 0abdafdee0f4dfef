//! `HTTP::cookie encrypt` and `decrypt`: a cookie's value kept from its client.
//!
//! The value becomes base64 of nonce, AES-256-GCM ciphertext and tag; the cookie's name is bound to it, so that one cookie
//! can't be passed off as another. The key is HKDF-SHA256 of the passphrase, kept with the passphrase's text.

use super::cookie::{cookies, found, replace};
use crate::command::Ctx;
use crate::fault::Fault;
use crate::value::Value;
use crate::world::strings;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use std::rc::Rc;

/// Checks a key length that a rule asks for.
pub(super) fn check(bits: &Value) -> Result<(), Fault> {
    match &*bits.bytes() {
        b"128" | b"192" | b"256" => Ok(()),
        other => Err(Fault::bad("key length", other, &["128", "192", "256"])),
    }
}

/// Encrypts a cookie's value, if it is there.
pub(super) fn encrypt(ctx: &mut Ctx<'_>, name: &Value, passphrase: &Value) -> Result<Value, Fault> {
    let key = key(passphrase)?;
    let name = name.bytes();
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&ctx.host.random().to_le_bytes());
    nonce[8..].copy_from_slice(&ctx.host.random().to_le_bytes()[..4]);
    let (head, response) = cookies(ctx)?;
    let Some(plain) = found(head, response, &name) else {
        return Ok(Value::Empty);
    };
    let mut sealed = plain.to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(&*name),
        &mut sealed,
    )
    .map_err(|_| Fault::error("cookie encryption failed"))?;
    let coded = strings::base64(&[&nonce[..], &sealed].concat());
    replace(head, response, &name, &coded);
    Ok(Value::from(coded))
}

/// Decrypts a cookie's value and gives it; nothing where it was not encrypted under that passphrase.
pub(super) fn decrypt(ctx: &mut Ctx<'_>, name: &Value, passphrase: &Value) -> Result<Value, Fault> {
    let key = key(passphrase)?;
    let name = name.bytes();
    let (head, response) = cookies(ctx)?;
    let sealed = found(head, response, &name).and_then(strings::unbase64);
    let Some(mut sealed) = sealed.filter(|sealed| sealed.len() >= NONCE_LEN) else {
        return Ok(Value::Empty);
    };
    let (nonce, text) = sealed.split_at_mut(NONCE_LEN);
    let Ok(nonce) = Nonce::try_assume_unique_for_key(nonce) else {
        return Ok(Value::Empty);
    };
    match key.open_in_place(nonce, Aad::from(&*name), text) {
        Ok(plain) => {
            replace(head, response, &name, plain);
            Ok(Value::new(plain))
        }
        Err(_) => Ok(Value::Empty),
    }
}

fn key(passphrase: &Value) -> Result<Rc<LessSafeKey>, Fault> {
    if let Some(key) = passphrase.remembered() {
        return Ok(key);
    }
    let failed = |_| Fault::error("no key can be made of that passphrase");
    let secret = Salt::new(HKDF_SHA256, b"headgate cookie").extract(&passphrase.bytes());
    let key = secret
        .expand(&[b"AES-256-GCM"], &AES_256_GCM)
        .map_err(failed)?;
    let key = Rc::new(LessSafeKey::new(UnboundKey::from(key)));
    passphrase.remember(Rc::clone(&key) as _);
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::super::cookie::COMMANDS;
    use super::super::testing::Bench;
    use crate::event::Event::{HttpRequest, HttpResponse};

    fn seal(value: &str) -> String {
        let response = format!("HTTP/1.1 200 OK\nSet-Cookie: a={value}; Path=/\n\n");
        let mut bench = Bench::http("GET / HTTP/1.1\n\n", &response);
        bench.run(
            HttpResponse,
            COMMANDS,
            "HTTP::cookie encrypt a {pass phrase}",
        );
        assert!(bench.response().contains("; Path=/"));
        bench.run(HttpResponse, COMMANDS, "HTTP::cookie value a")
    }

    fn open(request: &str, line: &str) -> (String, String) {
        let mut bench = Bench::http(&format!("GET / HTTP/1.1\nCookie: {request}\n\n"), "");
        let gives = bench.run(HttpRequest, COMMANDS, line);
        (
            gives,
            bench.run(HttpRequest, COMMANDS, "HTTP::cookie value a"),
        )
    }

    #[test]
    fn what_is_encrypted_for_a_client_is_decrypted_when_it_comes_back() {
        let sealed = seal("secret");
        assert!(!sealed.contains("secret"));
        let (gives, value) = open(
            &format!("x=1; a={sealed}; y=2"),
            "HTTP::cookie decrypt a {pass phrase} 192",
        );
        assert_eq!((gives.as_str(), value.as_str()), ("secret", "secret"));
    }

    #[test]
    fn other_names_passphrases_and_texts_give_nothing() {
        let sealed = seal("secret");
        let line = "HTTP::cookie decrypt a {pass phrase}";
        for (request, line) in [
            (format!("a={sealed}"), "HTTP::cookie decrypt a wrong"),
            (
                format!("b={sealed}"),
                "HTTP::cookie decrypt b {pass phrase}",
            ),
            ("a=plain".into(), line),
            ("a=AAAA".into(), line),
            ("b=1".into(), line),
        ] {
            let (gives, _) = open(&request, line);
            assert_eq!(gives, "", "{request}");
        }
        let (bad, _) = open("a=1", "HTTP::cookie decrypt a k 64");
        assert_eq!(
            bad,
            "error: bad key length \"64\": must be 128, 192, or 256"
        );
    }
}
