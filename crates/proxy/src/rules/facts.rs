//! What a TLS handshake has shown, as rules see it.

use rules::flow::TlsFacts;
use std::rc::Rc;
use tls::TlsInfo;

/// The facts of a handshake.
pub(crate) fn facts_of(info: &TlsInfo<'_>) -> Rc<TlsFacts> {
    let certificates = info.peer_certificates.iter();
    Rc::new(TlsFacts {
        sni: info.sni.map(ToOwned::to_owned),
        version: info.version,
        cipher: openssl_name(info.suite),
        bits: if info.suite.contains("AES_128") {
            128
        } else {
            256
        },
        alpn: info.alpn.map(ToOwned::to_owned),
        certificates: certificates.map(|c| c.as_ref().to_vec()).collect(),
        // One that does not verify is not let in.
        verify_result: 0,
        resumed: info.resumed,
    })
}

/// A suite's name as OpenSSL has it, and F5 with it; those of TLS 1.3 are the same.
fn openssl_name(iana: &str) -> String {
    let Some((exchange, cipher)) = iana
        .strip_prefix("TLS_")
        .and_then(|name| name.split_once("_WITH_"))
    else {
        return iana.to_owned();
    };
    let cipher = match cipher {
        "CHACHA20_POLY1305_SHA256" => "CHACHA20-POLY1305".to_owned(),
        other => other.replace("AES_", "AES").replace('_', "-"),
    };
    format!("{}-{cipher}", exchange.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_go_by_openssls_names() {
        for (iana, openssl) in [
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
            (
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                "ECDHE-RSA-AES256-GCM-SHA384",
            ),
            (
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ),
        ] {
            assert_eq!(openssl_name(iana), openssl);
        }
    }
}
