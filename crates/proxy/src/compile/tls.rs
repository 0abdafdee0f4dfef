//! TLS towards clients, members and monitors' targets: files read, contexts made, and used again as
//! long as neither the settings nor a byte of the files has changed.

use super::Compiler;
use model::{ClientTls, FilePath, Name, Sni, TlsVersion, TrustRoots};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::fs;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tls::{ClientContext, ClientSettings, Pem, Resumption, ServerContext, ServerSettings, Version};

/// Where systems keep the authorities they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Contexts to be used again, each with a digest of what it was made of.
#[derive(Clone, Default)]
pub(super) struct Kept {
    /// By profile, and whether it is for HTTP.
    servers: HashMap<(Name, bool), (u64, Arc<ServerContext>)>,
    /// By where the configuration has them.
    clients: HashMap<String, (u64, Arc<ClientContext>)>,
    /// By profile, with their size.
    resumption: HashMap<Name, (usize, Arc<Resumption>)>,
}

impl Kept {
    /// The context of a monitor.
    pub(super) fn monitor(&self, name: &str) -> Option<&Arc<ClientContext>> {
        let (_, context) = self.clients.get(&at_monitor(name))?;
        Some(context)
    }
}

impl Compiler<'_> {
    /// The context of a profile, for HTTP or for other protocols; `None` once errors are noted.
    pub(super) fn server_tls(&mut self, name: &Name, http: bool) -> Option<Arc<ServerContext>> {
        let key = (name.clone(), http);
        if let Some((_, context)) = self.kept.tls.servers.get(&key) {
            return Some(Arc::clone(context));
        }
        // That profiles exist was checked when the configuration was read.
        let profile = self.config.tls_profiles.get(name)?;
        let settings = self.server_settings(name, profile, http)?;
        let digest = digest(&settings);
        let context = match self.before.tls.servers.get(&key) {
            Some((same, context)) if *same == digest => Arc::clone(context),
            _ => {
                let resumption = self.resumption(name, profile.session_cache)?;
                match ServerContext::new(&settings, &resumption) {
                    Ok(context) => {
                        let warnings = context.warnings().iter();
                        let told = warnings.map(|text| format!("tls_profiles.{name}: {text}"));
                        self.warnings.extend(told);
                        context
                    }
                    Err(error) => {
                        let at = server_place(name, profile, &error.to_string());
                        self.error(at, error);
                        return None;
                    }
                }
            }
        };
        let kept = (digest, Arc::clone(&context));
        self.kept.tls.servers.insert(key, kept);
        Some(context)
    }

    /// Makes the profiles ready that no virtual uses: what is wrong with them is told all the same.
    pub(super) fn unused_profiles(&mut self) {
        for name in self.config.tls_profiles.keys() {
            let used = |http| self.kept.tls.servers.contains_key(&(name.clone(), http));
            if !used(true) && !used(false) {
                self.server_tls(name, true);
            }
        }
    }

    /// The context towards a pool's members.
    pub(super) fn client_tls(
        &mut self,
        pool: &Name,
        tls: &ClientTls,
    ) -> Option<Arc<ClientContext>> {
        self.client_context(format!("pools.{pool}.tls"), tls)
    }

    /// The contexts of monitors.
    pub(super) fn monitor_tls(&mut self) {
        for (name, monitor) in &self.config.monitors {
            if let Some(tls) = &monitor.tls {
                self.client_context(at_monitor(name), tls);
            }
        }
    }

    fn server_settings(
        &mut self,
        name: &Name,
        profile: &model::TlsProfile,
        http: bool,
    ) -> Option<ServerSettings> {
        let at = format!("tls_profiles.{name}");
        let mut certificates = Vec::new();
        for (n, certificate) in profile.certificates.iter().enumerate() {
            let at = format!("{at}.certificates[{n}]");
            let chain = self.pem(format!("{at}.certificate"), &certificate.certificate);
            let key = self.pem(format!("{at}.key"), &certificate.key);
            if let (Some(chain), Some(key)) = (chain, key) {
                certificates.push(tls::Certificate { chain, key });
            }
        }
        let client_auth = self.client_auth(&at, &profile.client_auth)?;
        if certificates.len() < profile.certificates.len() {
            return None;
        }
        let mut alpn = protocols(&profile.alpn);
        if alpn.is_empty() && http {
            alpn.push(b"http/1.1".to_vec());
        }
        Some(ServerSettings {
            certificates,
            min_version: version(profile.min_version),
            max_version: version(profile.max_version),
            suites: profile.suites.iter().map(|s| s.as_str().into()).collect(),
            groups: profile.groups.iter().map(|g| g.as_str().into()).collect(),
            alpn,
            client_auth,
            tickets: profile.session_tickets,
            require_sni: profile.require_sni,
            // HTTP knows by itself whether a message is complete.
            lenient_close: http,
        })
    }

    fn client_auth(&mut self, at: &str, auth: &model::ClientAuth) -> Option<tls::ClientAuth> {
        if auth.mode == model::ClientAuthMode::Off {
            return Some(tls::ClientAuth::Off);
        }
        let ca = match &auth.ca {
            Some(file) => self.pem(format!("{at}.client_auth.ca"), file)?,
            None => Pem::default(),
        };
        let mut crls = Vec::new();
        for (n, file) in auth.crl.iter().enumerate() {
            crls.push(self.pem(format!("{at}.client_auth.crl[{n}]"), file)?);
        }
        Some(match auth.mode {
            model::ClientAuthMode::Optional => tls::ClientAuth::Optional { ca, crls },
            _ => tls::ClientAuth::Required { ca, crls },
        })
    }

    fn resumption(&mut self, name: &Name, sessions: usize) -> Option<Arc<Resumption>> {
        let found = |kept: &Kept| kept.resumption.get(name).cloned();
        let same = found(&self.kept.tls).or_else(|| found(&self.before.tls));
        let (size, resumption) = match same.filter(|(size, _)| *size == sessions) {
            Some(same) => same,
            None => match Resumption::new(sessions) {
                Ok(resumption) => (sessions, resumption),
                Err(error) => {
                    self.error(format!("tls_profiles.{name}"), error);
                    return None;
                }
            },
        };
        let kept = (size, Arc::clone(&resumption));
        self.kept.tls.resumption.insert(name.clone(), kept);
        Some(resumption)
    }

    fn client_context(&mut self, at: String, tls: &ClientTls) -> Option<Arc<ClientContext>> {
        let settings = self.client_settings(&at, tls)?;
        let digest = digest(&settings);
        let context = match self.before.tls.clients.get(&at) {
            Some((same, context)) if *same == digest => Arc::clone(context),
            _ => match ClientContext::new(&settings) {
                Ok(context) => {
                    let warnings = context.warnings().iter();
                    self.warnings
                        .extend(warnings.map(|text| format!("{at}: {text}")));
                    context
                }
                Err(error) => {
                    self.error(at, error);
                    return None;
                }
            },
        };
        let kept = (digest, Arc::clone(&context));
        self.kept.tls.clients.insert(at, kept);
        Some(context)
    }

    fn client_settings(&mut self, at: &str, tls: &ClientTls) -> Option<ClientSettings> {
        let (ca, ca_is_bundle) = match &tls.ca {
            // Not read where nobody asks.
            _ if !tls.verify => (Pem::default(), false),
            TrustRoots::File(file) => (self.pem(format!("{at}.ca"), file)?, false),
            TrustRoots::System => (self.system_roots(at)?, true),
        };
        let certificate = match (&tls.certificate, &tls.key) {
            (Some(chain), Some(key)) => Some(tls::Certificate {
                chain: self.pem(format!("{at}.certificate"), chain)?,
                key: self.pem(format!("{at}.key"), key)?,
            }),
            _ => None,
        };
        let server_name = match (&tls.server_name, &tls.sni) {
            (Some(name), Sni::Name(sni)) if name != sni => {
                self.error(
                    format!("{at}.sni"),
                    "another name than `server_name`: the name that is sent is the one that is \
                     verified; leave `sni` out, or turn it `off`",
                );
                return None;
            }
            (Some(name), _) | (None, Sni::Name(name)) => Some(name.clone()),
            (None, _) => None,
        };
        Some(ClientSettings {
            verify: tls.verify,
            ca,
            ca_is_bundle,
            server_name,
            send_sni: tls.sni != Sni::Off,
            certificate,
            alpn: protocols(&tls.alpn),
            min_version: version(tls.min_version),
            // Many servers never say goodbye; HTTP's own framing tells what is complete.
            lenient_close: true,
            ..ClientSettings::default()
        })
    }

    fn system_roots(&mut self, at: &str) -> Option<Pem> {
        let named = std::env::var("SSL_CERT_FILE").ok();
        let places = named.iter().map(String::as_str).chain(SYSTEM_ROOTS);
        for place in places {
            if let Ok(bytes) = fs::read(place) {
                let label = place.to_owned();
                return Some(Pem { label, bytes });
            }
        }
        self.error(
            format!("{at}.ca"),
            "this system has no bundle of authorities: install the package ca-certificates, or \
             name a file",
        );
        None
    }

    fn pem(&mut self, at: String, file: &FilePath) -> Option<Pem> {
        let path = file.as_path();
        match fs::read(path) {
            Ok(bytes) => Some(Pem {
                label: path.display().to_string(),
                bytes,
            }),
            Err(error) => {
                self.error(at, format!("cannot read {}: {error}", path.display()));
                None
            }
        }
    }
}

fn at_monitor(name: &str) -> String {
    format!("monitors.{name}.tls")
}

/// The place of the certificate that an error names, or else that of the profile.
fn server_place(name: &Name, profile: &model::TlsProfile, error: &str) -> String {
    let at = format!("tls_profiles.{name}");
    let names = |file: &FilePath| error.starts_with(&format!("{}:", file.as_path().display()));
    let wrong = profile
        .certificates
        .iter()
        .position(|c| names(&c.certificate) || names(&c.key));
    match wrong {
        Some(n) => format!("{at}.certificates[{n}]"),
        None => at,
    }
}

/// What settings were made of, files' bytes and all: a moment's work at a reload.
fn digest(settings: &impl Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{settings:?}").hash(&mut hasher);
    hasher.finish()
}

fn protocols(alpn: &[String]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn version(version: TlsVersion) -> Version {
    match version {
        TlsVersion::V1_2 => Version::Tls12,
        TlsVersion::V1_3 => Version::Tls13,
    }
}
