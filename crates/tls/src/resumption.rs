//! What lets a client resume: ticket keys, and sessions for clients without tickets.
//!
//! Made once and handed to every context, so that a reload and many workers share it. A session is
//! bound to the demands made of clients when it began: none can be carried to where more is asked.

use crate::settings::SettingsError;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use std::sync::Arc;

/// Length of the tag that binds a session to its scope, in bytes.
const SCOPE: usize = 16;

/// Ticket keys (made from the system's random bytes, changed every six hours, good for twelve) and
/// a cache of sessions.
#[derive(Debug)]
pub struct Resumption {
    tickets: Arc<dyn ProducesTickets>,
    sessions: Arc<dyn StoresServerSessions>,
    can_cache: bool,
}

impl Resumption {
    /// `sessions` is how many of them are remembered for clients that use no tickets.
    pub fn new(sessions: usize) -> Result<Arc<Self>, SettingsError> {
        Ok(Arc::new(Resumption {
            tickets: rustls::crypto::aws_lc_rs::Ticketer::new()
                .map_err(|_| SettingsError::NoRandomness)?,
            sessions: ServerSessionMemoryCache::new(sessions),
            can_cache: sessions > 0,
        }))
    }
}

/// A context's part of it.
#[derive(Debug)]
pub(crate) struct Scoped {
    shared: Arc<Resumption>,
    scope: [u8; SCOPE],
    tickets: bool,
}

impl Scoped {
    /// `scope` is a digest of what is asked of clients.
    pub(crate) fn new(shared: &Arc<Resumption>, scope: &[u8], tickets: bool) -> Arc<Self> {
        let mut tag = [0; SCOPE];
        tag.copy_from_slice(&scope[..SCOPE]);
        Arc::new(Scoped {
            shared: Arc::clone(shared),
            scope: tag,
            tickets,
        })
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.scope[..], key].concat()
    }
}

impl ProducesTickets for Scoped {
    fn enabled(&self) -> bool {
        self.tickets && self.shared.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.shared.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.shared.tickets.encrypt(&self.key(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut plain = self.shared.tickets.decrypt(cipher)?;
        if !plain.starts_with(&self.scope) {
            return None;
        }
        plain.drain(..SCOPE);
        Some(plain)
    }
}

impl StoresServerSessions for Scoped {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.shared.can_cache && self.shared.sessions.put(self.key(&key), value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shared.sessions.get(&self.key(key))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shared.sessions.take(&self.key(key))
    }

    fn can_cache(&self) -> bool {
        self.shared.can_cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_in_its_own_scope_alone() {
        let shared = Resumption::new(8).unwrap();
        let open = Scoped::new(&shared, &[1; 32], true);
        let strict = Scoped::new(&shared, &[2; 32], true);
        let again = Scoped::new(&shared, &[1; 32], true);
        let ticket = open.encrypt(b"session").unwrap();
        assert_eq!(strict.decrypt(&ticket), None);
        assert_eq!(again.decrypt(&ticket).as_deref(), Some(&b"session"[..]));
    }

    #[test]
    fn a_remembered_session_is_found_in_its_own_scope_alone() {
        let shared = Resumption::new(8).unwrap();
        let open = Scoped::new(&shared, &[1; 32], true);
        let strict = Scoped::new(&shared, &[2; 32], true);
        assert!(open.put(b"id".to_vec(), b"session".to_vec()));
        assert_eq!(strict.get(b"id"), None);
        assert_eq!(open.take(b"id").as_deref(), Some(&b"session"[..]));
    }
}
