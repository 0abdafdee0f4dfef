//! A server's settings made ready: what every accepted connection shares.

use crate::facts::sha256;
use crate::load;
use crate::names;
use crate::resolve::Resolver;
use crate::resumption::{Resumption, Scoped};
use crate::settings::{ClientAuth, Expiry, Pem, ServerSettings, SettingsError};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;

/// Immutable; a reload makes another, and connections keep the one they began with.
#[derive(Debug)]
pub struct ServerContext {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) require_sni: bool,
    pub(crate) lenient_close: bool,
    warnings: Vec<String>,
    expiries: Vec<Expiry>,
}

impl ServerContext {
    /// Reads and checks everything; `resumption` outlives the context, so that sessions do too.
    pub fn new(
        settings: &ServerSettings,
        resumption: &Arc<Resumption>,
    ) -> Result<Arc<Self>, SettingsError> {
        if settings.certificates.is_empty() {
            return Err(SettingsError::NoCertificates);
        }
        let span = (settings.min_version, settings.max_version);
        let provider = names::provider(&settings.suites, &settings.groups, span)?;
        let mut loaded = Vec::new();
        for certificate in &settings.certificates {
            loaded.push(load::certificate(certificate, &provider)?);
        }
        let resolver = Resolver::new(
            loaded.iter().map(|c| (&c.expiry.names[..], &c.key)),
            settings.require_sni,
        );
        let versions = names::versions(&provider, span);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(refused)?;
        let mut config = match verifier(&settings.client_auth, &provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        }
        .with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols.clone_from(&settings.alpn);
        let tickets = settings.tickets > 0;
        let scoped = Scoped::new(resumption, &scope(&settings.client_auth), tickets);
        config.ticketer = Arc::clone(&scoped) as _;
        config.session_storage = scoped;
        config.send_tls13_tickets = settings.tickets;
        config.max_early_data_size = 0;
        Ok(Arc::new(ServerContext {
            config: Arc::new(config),
            require_sni: settings.require_sni,
            lenient_close: settings.lenient_close,
            warnings: loaded.iter().flat_map(|c| c.warnings.clone()).collect(),
            expiries: loaded.into_iter().map(|c| c.expiry).collect(),
        }))
    }

    /// What its reader should look at soon: certificates that expired or will, broken chains.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The same with settings that users have no say in.
    #[cfg(test)]
    pub(crate) fn with_config(&self, config: ServerConfig) -> Self {
        ServerContext {
            config: Arc::new(config),
            require_sni: self.require_sni,
            lenient_close: self.lenient_close,
            warnings: self.warnings.clone(),
            expiries: self.expiries.clone(),
        }
    }

    /// When each certificate ends, in the order of the settings.
    pub fn expiries(&self) -> &[Expiry] {
        &self.expiries
    }
}

pub(crate) fn refused(error: rustls::Error) -> SettingsError {
    SettingsError::Refused(error.to_string())
}

fn verifier(
    auth: &ClientAuth,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, SettingsError> {
    let (ca, crls, optional) = match auth {
        ClientAuth::Off => return Ok(None),
        ClientAuth::Optional { ca, crls } => (ca, crls, true),
        ClientAuth::Required { ca, crls } => (ca, crls, false),
    };
    let roots = load::authorities(ca, false)?;
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
        .with_crls(load::revocation_lists(crls)?);
    if optional {
        builder = builder.allow_unauthenticated();
    }
    builder
        .build()
        .map(Some)
        .map_err(|error| SettingsError::Refused(error.to_string()))
}

/// A digest of what is asked of clients: a session begun under other demands is not resumed.
fn scope(auth: &ClientAuth) -> Vec<u8> {
    let (kind, ca, crls): (u8, Option<&Pem>, &[Pem]) = match auth {
        ClientAuth::Off => (0, None, &[]),
        ClientAuth::Optional { ca, crls } => (1, Some(ca), crls),
        ClientAuth::Required { ca, crls } => (2, Some(ca), crls),
    };
    let mut text = vec![kind];
    for pem in ca.into_iter().chain(crls) {
        text.extend_from_slice(&(pem.bytes.len() as u64).to_be_bytes());
        text.extend_from_slice(&pem.bytes);
    }
    sha256(&text)
}
