//! `X509::` commands: what certificates say. They are DER, as `SSL::cert` gives them, or PEM.

use super::date::certificate_date;
use super::strings::{base64, hex, unbase64};
use super::x509_text::{extension_text, name_text, object_name, verify_error};
use crate::command::{ANY, Command, Ctx};
use crate::fault::Fault;
use crate::value::Value;
use md5::{Digest, Md5};
use std::borrow::Cow;
use std::rc::Rc;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::public_key::PublicKey;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("X509::subject", "certificate ?attribute?", 1, 2, subject).differs(NAMES),
    Command::new("X509::issuer", "certificate ?attribute?", 1, 2, issuer).differs(NAMES),
    Command::new("X509::serial_number", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| serial(cert).into())
    })
    .differs("hexadecimal, two digits a byte, with colons"),
    Command::new("X509::hash", "certificate", 1, 1, |_, args| {
        let der = der(&args[0])?;
        Ok(colons(&Md5::digest(&*der)).to_ascii_uppercase().into())
    }),
    Command::new("X509::version", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| {
            Value::Int(i64::from(cert.version().0) + 1)
        })
    }),
    Command::new("X509::not_valid_before", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| {
            certificate_date(cert.validity().not_before.timestamp()).into()
        })
    }),
    Command::new("X509::not_valid_after", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| {
            certificate_date(cert.validity().not_after.timestamp()).into()
        })
    }),
    Command::new("X509::signature_algorithm", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| signature(cert).into())
    }),
    Command::new("X509::subject_public_key", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| {
            hex(&cert.public_key().subject_public_key.data).into()
        })
    })
    .differs("the key's bits in hexadecimal"),
    Command::new("X509::subject_public_key_type", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| Value::from(key_type(cert)))
    }),
    Command::new("X509::subject_public_key_RSA_bits", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| match cert.public_key().parsed() {
            Ok(PublicKey::RSA(key)) => key.key_size().into(),
            _ => Value::Int(0),
        })
    }),
    Command::new("X509::extensions", "certificate", 1, 1, |_, args| {
        read(&args[0], |cert| {
            let texts = cert.extensions().iter().map(extension_text);
            texts.collect::<String>().into()
        })
    })
    .differs(
        "alternative names, key usages, basic constraints and key identifiers are written out, others in hexadecimal",
    ),
    Command::new("X509::verify_cert_error_string", "code", 1, 1, |_, args| {
        Ok(verify_error(args[0].int()?))
    }),
    Command::new("X509::whole", "certificate", 1, 1, |_, args| pem(&args[0])),
    Command::new("X509::der2pem", "certificate", 1, 1, |_, args| pem(&args[0])),
    Command::new("X509::pem2der", "certificate", 1, 1, |_, args| {
        let der = der(&args[0])?;
        Ok(Value::new(&der))
    }),
    Command::new("X509::cert_fields", "certificate code ?field ...?", 2, ANY, cert_fields)
        .differs("the headers' names begin with SSLClientCert; the list is of names and values"),
];

const NAMES: &str = "written as RFC 2253 does, the most specific part first: CN=…,OU=…,O=…,C=…";

/// The texts of a certificate's names, kept with its value.
struct Names {
    subject: Value,
    issuer: Value,
}

fn invalid() -> Fault {
    Fault::error("Illegal argument. Not an X.509 certificate")
}

/// A certificate's DER.
fn der(value: &Value) -> Result<Cow<'_, [u8]>, Fault> {
    const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
    const END: &[u8] = b"-----END CERTIFICATE-----";
    let text = match value {
        Value::Text(text) => text.chars(),
        _ => return Err(invalid()),
    };
    let Some(begin) = memchr::memmem::find(text, BEGIN) else {
        return Ok(Cow::Borrowed(text));
    };
    let body = &text[begin + BEGIN.len()..];
    let end = memchr::memmem::find(body, END).ok_or_else(invalid)?;
    unbase64(&body[..end]).map(Cow::Owned).ok_or_else(invalid)
}

fn read(value: &Value, tell: impl Fn(&X509Certificate<'_>) -> Value) -> Result<Value, Fault> {
    let der = der(value)?;
    let (_, cert) = X509Certificate::from_der(&der).map_err(|_| invalid())?;
    Ok(tell(&cert))
}

fn names(value: &Value) -> Result<Rc<Names>, Fault> {
    if let Some(names) = value.remembered::<Names>() {
        return Ok(names);
    }
    let der = der(value)?;
    let (_, cert) = X509Certificate::from_der(&der).map_err(|_| invalid())?;
    let names = Rc::new(Names {
        subject: name_text(cert.subject()).into(),
        issuer: name_text(cert.issuer()).into(),
    });
    value.remember(Rc::clone(&names) as _);
    Ok(names)
}

fn subject(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match &args[1..] {
        [] => Ok(names(&args[0])?.subject.clone()),
        [attribute, ..] => read(&args[0], |cert| part(cert.subject(), &attribute.bytes())),
    }
}

fn issuer(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    match &args[1..] {
        [] => Ok(names(&args[0])?.issuer.clone()),
        [attribute, ..] => read(&args[0], |cert| part(cert.issuer(), &attribute.bytes())),
    }
}

/// A name's attribute: the last of that kind, which is the most specific.
fn part(name: &X509Name<'_>, attribute: &[u8]) -> Value {
    let is_meant = |oid: &str| {
        let (short, long) = object_name(oid).unwrap_or((oid, oid));
        [short, long, oid]
            .iter()
            .any(|name| name.as_bytes().eq_ignore_ascii_case(attribute))
    };
    let last = name
        .iter_attributes()
        .filter(|attr| is_meant(&attr.attr_type().to_id_string()))
        .last();
    last.map_or(Value::Empty, |attr| {
        super::x509_text::value_text(attr).into()
    })
}

fn colons(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| hex(&[*byte])).collect();
    pairs.join(":")
}

fn serial(cert: &X509Certificate<'_>) -> String {
    let raw = cert.raw_serial();
    // The zero that keeps it positive is none of its digits.
    colons(match raw {
        [0, rest @ ..] if !rest.is_empty() => rest,
        _ => raw,
    })
}

fn signature(cert: &X509Certificate<'_>) -> String {
    let oid = cert.signature_algorithm.algorithm.to_id_string();
    let name = match oid.as_str() {
        "1.2.840.113549.1.1.4" => "md5WithRSAEncryption",
        "1.2.840.113549.1.1.5" => "sha1WithRSAEncryption",
        "1.2.840.113549.1.1.10" => "rsassaPss",
        "1.2.840.113549.1.1.11" => "sha256WithRSAEncryption",
        "1.2.840.113549.1.1.12" => "sha384WithRSAEncryption",
        "1.2.840.113549.1.1.13" => "sha512WithRSAEncryption",
        "1.2.840.10045.4.1" => "ecdsa-with-SHA1",
        "1.2.840.10045.4.3.2" => "ecdsa-with-SHA256",
        "1.2.840.10045.4.3.3" => "ecdsa-with-SHA384",
        "1.2.840.10045.4.3.4" => "ecdsa-with-SHA512",
        "1.2.840.10040.4.3" => "dsaWithSHA1",
        "1.3.101.112" => "ED25519",
        "1.3.101.113" => "ED448",
        _ => return oid,
    };
    name.to_owned()
}

fn key_type(cert: &X509Certificate<'_>) -> &'static str {
    match cert
        .public_key()
        .algorithm
        .algorithm
        .to_id_string()
        .as_str()
    {
        "1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.10" => "RSA",
        "1.2.840.10045.2.1" => "EC",
        "1.2.840.10040.4.1" => "DSA",
        "1.3.101.112" => "ED25519",
        "1.3.101.113" => "ED448",
        _ => "unknown",
    }
}

fn pem(value: &Value) -> Result<Value, Fault> {
    let der = der(value)?;
    X509Certificate::from_der(&der).map_err(|_| invalid())?;
    let mut out = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for line in base64(&der).chunks(64) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(b"-----END CERTIFICATE-----\n");
    Ok(out.into())
}

fn cert_fields(_: &mut Ctx<'_>, args: &[Value]) -> Result<Value, Fault> {
    const FIELDS: [&str; 9] = [
        "hash",
        "issuer",
        "serial",
        "sigalg",
        "subject",
        "subpubkey",
        "validity",
        "versionnum",
        "whole",
    ];
    let der = der(&args[0])?;
    let (_, cert) = X509Certificate::from_der(&der).map_err(|_| invalid())?;
    let mut list = vec![
        Value::from("SSLClientCertStatus"),
        verify_error(args[1].int()?),
    ];
    let mut add = |name: &str, value: Value| {
        list.push(Value::from(format!("SSLClientCert{name}")));
        list.push(value);
    };
    for field in &args[2..] {
        match &*field.bytes() {
            b"hash" => add(
                "Hash",
                colons(&Md5::digest(&*der)).to_ascii_uppercase().into(),
            ),
            b"issuer" => add("Issuer", name_text(cert.issuer()).into()),
            b"serial" => add("SerialNumber", serial(&cert).into()),
            b"sigalg" => add("SignatureAlgorithm", signature(&cert).into()),
            b"subject" => add("Subject", name_text(cert.subject()).into()),
            b"subpubkey" => add("PublicKeyType", Value::from(key_type(&cert))),
            b"validity" => {
                let validity = cert.validity();
                let date = |seconds| Value::from(certificate_date(seconds));
                add("NotValidBefore", date(validity.not_before.timestamp()));
                add("NotValidAfter", date(validity.not_after.timestamp()));
            }
            b"versionnum" => add("Version", Value::Int(i64::from(cert.version().0) + 1)),
            b"whole" => add("", Value::from(base64(&der))),
            other => return Err(Fault::bad("field", other, &FIELDS)),
        }
    }
    Ok(Value::list_of(list))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event::HttpRequest;
    use crate::world::http::testing::Bench;

    const CLIENT: &[u8] = include_bytes!("../../testdata/x509/client.pem");
    const RSA: &[u8] = include_bytes!("../../testdata/x509/rsa.pem");

    fn run(name: &str, words: &[Value]) -> Value {
        let command = COMMANDS
            .iter()
            .find(|command| command.name == name)
            .unwrap();
        Bench::new().call(HttpRequest, command, words).unwrap()
    }

    fn tell(command: &str, certificate: &Value) -> String {
        run(command, std::slice::from_ref(certificate)).lossy()
    }

    #[test]
    fn a_certificate_is_read_from_der_and_pem_alike() {
        let name = r"emailAddress=one@example.com,CN=client one,OU=Sales,O=Acme\, Inc.,ST=WA,C=US";
        let pem = Value::new(CLIENT);
        let der = run("X509::pem2der", std::slice::from_ref(&pem));
        assert!(!der.bytes().starts_with(b"-----"));
        for certificate in [&der, &pem] {
            for (command, gives) in [
                ("X509::subject", name),
                ("X509::subject", name),
                ("X509::issuer", name),
                ("X509::serial_number", "9f:01:02"),
                (
                    "X509::hash",
                    "E6:9D:62:AE:29:84:07:E0:0B:2C:BD:87:AD:8E:FF:92",
                ),
                ("X509::version", "3"),
                ("X509::not_valid_before", "Nov 21 01:16:16 2026 GMT"),
                ("X509::not_valid_after", "Oct 28 01:16:16 2126 GMT"),
                ("X509::signature_algorithm", "ecdsa-with-SHA256"),
                ("X509::subject_public_key_type", "EC"),
                ("X509::subject_public_key_RSA_bits", "0"),
            ] {
                assert_eq!(tell(command, certificate), gives, "{command}");
            }
        }
        for command in ["X509::whole", "X509::der2pem"] {
            assert_eq!(tell(command, &der).as_bytes(), CLIENT);
        }
        // 04 stands before the two coordinates of an uncompressed point.
        let key = tell("X509::subject_public_key", &der);
        assert!(key.starts_with("04") && key.len() == 130, "{key}");
        assert_eq!(
            tell("X509::subject_public_key_RSA_bits", &Value::new(RSA)),
            "2048"
        );
        assert_eq!(tell("X509::subject", &Value::new(RSA)), "CN=r");
    }

    #[test]
    fn attributes_of_a_name_are_told_by_their_short_and_long_names() {
        let pem = Value::new(CLIENT);
        for (attribute, gives) in [
            ("CN", "client one"),
            ("commonName", "client one"),
            ("O", "Acme, Inc."),
            ("2.5.4.11", "Sales"),
            ("L", ""),
        ] {
            let words = [pem.clone(), Value::from(attribute)];
            assert_eq!(run("X509::subject", &words).lossy(), gives, "{attribute}");
        }
    }

    #[test]
    fn extensions_are_printed_as_openssl_prints_them() {
        let text = tell("X509::extensions", &Value::new(CLIENT));
        for part in [
            "X509v3 Subject Alternative Name:\n    DNS:a.example.com, IP Address:192.0.2.1, email:one@example.com\n",
            "X509v3 Extended Key Usage:\n    TLS Web Client Authentication\n",
            "X509v3 Key Usage: critical\n    Digital Signature, Key Agreement\n",
            "X509v3 Basic Constraints: critical\n    CA:TRUE\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn fields_are_listed_for_headers() {
        let words: Vec<Value> = ["0", "subject", "serial", "validity", "whole"]
            .map(Value::from)
            .into();
        let words = [vec![Value::new(RSA)], words].concat();
        let list = run("X509::cert_fields", &words);
        let list = list.list().unwrap();
        let names: Vec<_> = list.iter().step_by(2).map(Value::lossy).collect();
        assert_eq!(
            names,
            [
                "SSLClientCertStatus",
                "SSLClientCertSubject",
                "SSLClientCertSerialNumber",
                "SSLClientCertNotValidBefore",
                "SSLClientCertNotValidAfter",
                "SSLClientCert",
            ]
        );
        assert!(list[1].is(b"ok") && list[3].is(b"CN=r"));
    }

    #[test]
    fn what_is_no_certificate_is_an_error() {
        for text in ["", "abc", "-----BEGIN CERTIFICATE-----\nAAAA", "7"] {
            for command in COMMANDS.iter().filter(|command| command.most == 1) {
                let result = Bench::new().call(HttpRequest, command, &[Value::from(text)]);
                // Fingerprints and conversions take any bytes.
                let any = ["X509::hash", "X509::pem2der"].contains(&command.name);
                let fails = result.is_err();
                let code = command.name == "X509::verify_cert_error_string";
                assert!(
                    fails || any || (code && text == "7"),
                    "{} {text:?}",
                    command.name
                );
            }
        }
        assert_eq!(
            tell("X509::verify_cert_error_string", &Value::Int(10)),
            "certificate has expired"
        );
        assert_eq!(
            tell("X509::verify_cert_error_string", &Value::Int(-4)),
            "error number -4"
        );
    }
}
