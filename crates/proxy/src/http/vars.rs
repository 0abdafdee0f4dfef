//! What a template's places are filled with.

use super::route;
use crate::client::Client;
use model::{Template, TemplatePart, Variable};
use std::net::{IpAddr, SocketAddr};
use wire::h1::RequestHead;

/// An exchange, as templates see it.
#[derive(Clone, Copy)]
pub(crate) struct Vars<'a> {
    pub(crate) client: &'a Client,
    /// Who the client is, as trusted proxies report it.
    pub(crate) client_ip: IpAddr,
    pub(crate) head: &'a RequestHead,
    pub(crate) buf: &'a [u8],
    pub(crate) request_id: &'a [u8],
}

impl Vars<'_> {
    /// Writes a template out. Bytes that would end a field's line are left out.
    pub(crate) fn render(&self, template: &Template, out: &mut Vec<u8>) {
        for part in template.parts() {
            match part {
                TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Variable(variable) => {
                    let start = out.len();
                    self.variable(*variable, out);
                    if out[start..].iter().any(u8::is_ascii_control) {
                        let clean: Vec<u8> = out[start..]
                            .iter()
                            .copied()
                            .filter(|b| !b.is_ascii_control())
                            .collect();
                        out.truncate(start);
                        out.extend_from_slice(&clean);
                    }
                }
            }
        }
    }

    /// `https` where the client speaks TLS.
    pub(crate) fn proto(&self) -> &'static str {
        if self.client.channel.is_plain() {
            "http"
        } else {
            "https"
        }
    }

    fn variable(&self, variable: Variable, out: &mut Vec<u8>) {
        match variable {
            Variable::ClientIp => push_ip(out, self.client_ip),
            Variable::ClientPort => push_number(out, self.client.peer.port()),
            Variable::Host => out.extend_from_slice(route::host(self.head, self.buf).as_bytes()),
            Variable::Path => out.extend_from_slice(self.head.path_only(self.buf)),
            Variable::Uri => out.extend_from_slice(self.head.path_and_query(self.buf)),
            Variable::Query => out.extend_from_slice(self.head.query(self.buf).unwrap_or(b"")),
            Variable::Method => out.extend_from_slice(self.head.method_span.of(self.buf)),
            Variable::Proto => out.extend_from_slice(self.proto().as_bytes()),
            Variable::RequestId => out.extend_from_slice(self.request_id),
            Variable::ServerIp => push_ip(out, self.client.local.ip()),
            Variable::ServerPort => push_number(out, self.client.local.port()),
            Variable::Virtual => out.extend_from_slice(self.client.service.name.as_bytes()),
            Variable::Sni
            | Variable::TlsVersion
            | Variable::TlsCipher
            | Variable::ClientCertSubject => self.tls(variable, out),
        }
    }

    fn tls(&self, variable: Variable, out: &mut Vec<u8>) {
        self.client.channel.with(|stream| {
            let Some(info) = stream.info() else { return };
            let text = match variable {
                Variable::Sni => info.sni.unwrap_or("").to_owned(),
                Variable::TlsVersion => info.version.to_owned(),
                Variable::TlsCipher => info.suite.to_owned(),
                _ => info
                    .peer_certificates
                    .first()
                    .and_then(|certificate| tls::CertificateFacts::parse(certificate).ok())
                    .map(|facts| facts.subject)
                    .unwrap_or_default(),
            };
            out.extend_from_slice(text.as_bytes());
        });
    }
}

/// Writes an address as text.
pub(crate) fn push_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            for (n, octet) in v4.octets().into_iter().enumerate() {
                if n > 0 {
                    out.push(b'.');
                }
                push_number(out, u16::from(octet));
            }
        }
        IpAddr::V6(v6) => out.extend_from_slice(v6.to_string().as_bytes()),
    }
}

/// Writes an address and port as RFC 7239 wants a node: IPv6 in brackets and all of it quoted.
pub(crate) fn push_node(out: &mut Vec<u8>, node: SocketAddr) {
    match node.ip().to_canonical() {
        IpAddr::V4(_) => push_ip(out, node.ip()),
        IpAddr::V6(v6) => out.extend_from_slice(format!("\"[{v6}]\"").as_bytes()),
    }
}

/// Writes a number in decimal.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u16) {
    let mut digits = [0; 5];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_numbers_read_as_usual() {
        let text = |ip: &str| {
            let mut out = Vec::new();
            push_ip(&mut out, ip.parse().unwrap());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text("10.0.255.7"), "10.0.255.7");
        assert_eq!(text("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(text("2001:db8::1"), "2001:db8::1");
        for number in [0, 9, 10, 80, 65535] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
