//! A client's settings made ready: what every connection to a server shares.

use crate::load;
use crate::names;
use crate::server::refused;
use crate::settings::{ClientSettings, SettingsError};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;

/// Immutable, with the sessions that can be resumed.
#[derive(Debug)]
pub struct ClientContext {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) lenient_close: bool,
    warnings: Vec<String>,
}

impl ClientContext {
    /// Reads and checks everything.
    pub fn new(settings: &ClientSettings) -> Result<Arc<Self>, SettingsError> {
        let span = (settings.min_version, settings.max_version);
        let provider = names::provider(&settings.suites, &settings.groups, span)?;
        let versions = names::versions(&provider, span);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(refused)?;
        let verifier: Arc<dyn ServerCertVerifier> = if settings.verify {
            let roots = load::authorities(&settings.ca, settings.ca_is_bundle)?;
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .with_crls(load::revocation_lists(&settings.crls)?)
                .build()
                .map_err(|error| SettingsError::Refused(error.to_string()))?
        } else {
            Arc::new(Unverified(Arc::clone(&provider)))
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut warnings = Vec::new();
        let mut config = match &settings.certificate {
            None => builder.with_no_client_auth(),
            Some(certificate) => {
                let loaded = load::certificate(certificate, &provider)?;
                warnings = loaded.warnings;
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(
                    loaded.key,
                )))
            }
        };
        config.alpn_protocols.clone_from(&settings.alpn);
        config.enable_sni = settings.send_sni;
        config.resumption = match settings.session_cache {
            0 => Resumption::disabled(),
            servers => Resumption::in_memory_sessions(servers),
        };
        let server_name = match &settings.server_name {
            Some(name) => Some(Self::server_name(name)?),
            None => None,
        };
        Ok(Arc::new(ClientContext {
            config: Arc::new(config),
            server_name,
            lenient_close: settings.lenient_close,
            warnings,
        }))
    }

    /// A DNS name or an address, in the form [`connect`](crate::connect) takes: read once, used often.
    pub fn server_name(name: &str) -> Result<ServerName<'static>, SettingsError> {
        ServerName::try_from(name.to_owned())
            .map_err(|_| SettingsError::BadServerName(name.to_owned()))
    }

    /// What its reader should look at soon, about the certificate that is shown.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// Takes any certificate whose key the server can prove to have.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
