//! Which certificate answers which name: exact, then wildcard, then the first of all.

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

thread_local! {
    /// The name in the ClientHello that this thread processed last: the connection itself does not
    /// tell it.
    static ASKED: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// The name that the ClientHello just processed asked for.
pub(crate) fn take_asked() -> Option<Box<str>> {
    ASKED.take()
}

/// Certificates by name.
#[derive(Debug)]
pub(crate) struct Resolver {
    /// Every certificate for a name, the cheapest to sign with first.
    exact: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// The same, by what follows `*.`.
    wildcard: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// The first certificate given, and others for its name.
    default: Vec<Arc<CertifiedKey>>,
    require_name: bool,
}

impl Resolver {
    pub(crate) fn new<'a>(
        certificates: impl Iterator<Item = (&'a [String], &'a Arc<CertifiedKey>)>,
        require_name: bool,
    ) -> Self {
        let mut resolver = Resolver {
            exact: HashMap::new(),
            wildcard: HashMap::new(),
            default: Vec::new(),
            require_name,
        };
        let mut first_name = None;
        for (names, key) in certificates {
            if resolver.default.is_empty() {
                first_name = names.first();
                resolver.default.push(Arc::clone(key));
            } else if first_name.is_some_and(|name| names.contains(name)) {
                resolver.default.push(Arc::clone(key));
            }
            for name in names {
                let (map, name) = match name.strip_prefix("*.") {
                    Some(rest) => (&mut resolver.wildcard, rest),
                    None => (&mut resolver.exact, name.as_str()),
                };
                map.entry(name.into()).or_default().push(Arc::clone(key));
            }
        }
        let lists = resolver.exact.values_mut();
        for list in lists.chain(resolver.wildcard.values_mut()) {
            list.sort_by_key(|key| cost(key));
        }
        resolver.default.sort_by_key(|key| cost(key));
        resolver
    }

    fn choose(
        &self,
        name: Option<&str>,
        schemes: &[SignatureScheme],
    ) -> Option<&Arc<CertifiedKey>> {
        let found = name.and_then(|name| self.lookup(name));
        let list = match found {
            Some(list) => list,
            None if self.require_name => return None,
            None => &self.default,
        };
        list.iter()
            .find(|key| key.key.choose_scheme(schemes).is_some())
            .or(list.first())
    }

    fn lookup(&self, name: &str) -> Option<&Vec<Arc<CertifiedKey>>> {
        let lower;
        let name = if name.bytes().any(|b| b.is_ascii_uppercase()) {
            lower = name.to_ascii_lowercase();
            lower.as_str()
        } else {
            name
        };
        self.exact.get(name).or_else(|| {
            let (_, parent) = name.split_once('.')?;
            self.wildcard.get(parent)
        })
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED.set(hello.server_name().map(Into::into));
        self.choose(hello.server_name(), hello.signature_schemes())
            .cloned()
    }
}

/// The order in which a server prefers to sign.
fn cost(key: &CertifiedKey) -> u8 {
    match key.key.algorithm() {
        SignatureAlgorithm::ECDSA => 0,
        SignatureAlgorithm::ED25519 => 1,
        _ => 2,
    }
}
