//! Sessions with their tokens, and the lists of requests that are made of them.

use anyhow::{Context, Result};
use aws_lc_rs::hmac;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Session cookies and the tokens that belong to them when the client is 127.0.0.1.
pub(crate) struct Sessions(Vec<Session>);

struct Session {
    id: String,
    token: String,
}

/// The cookies' names and the key, as the rule has them.
const SESSION: &str = "ASP.NET_SessionId";
const TOKEN: &str = "ASP.NET_SessionId_HMAC";
const KEY: &[u8] = b"AzaZ5678901234567XYZ34567XYZ";
/// What is visited: pages of so many objects.
const PAGES: usize = 25;
const OBJECTS: usize = 40;

impl Sessions {
    /// So many different ones; another seed makes others.
    pub(crate) fn new(count: usize, seed: u64) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sessions = (0..count).map(|_| {
            let id: String = (0..24)
                .map(|_| {
                    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
                    char::from(LETTERS[(random(&mut state) % 32) as usize])
                })
                .collect();
            let token = base64(hmac::sign(&key, format!("{id}:127.0.0.1").as_bytes()).as_ref());
            Session { id, token }
        });
        Self(sessions.collect())
    }

    /// The session cookie's value of the one at this place.
    pub(crate) fn id(&self, place: usize) -> &str {
        &self.0[place].id
    }

    /// The first of them alone.
    pub(crate) fn first(&self) -> Self {
        let one = self.0.first().map(|session| Session {
            id: session.id.clone(),
            token: session.token.clone(),
        });
        Self(one.into_iter().collect())
    }

    /// A request of each, object after object and page after page; a single one visits all of them.
    pub(crate) fn write_visits(&self, file: &Path) -> Result<()> {
        let mut text = String::new();
        let visits = PAGES * OBJECTS;
        for (number, session) in (0..visits.max(self.0.len())).zip(self.0.iter().cycle()) {
            let (page, object) = (number / OBJECTS % PAGES, number % OBJECTS);
            let Session { id, token } = session;
            let _ = writeln!(
                text,
                "/bytes/1024?page={page}&object={object} {SESSION}={id}; {TOKEN}={token}"
            );
        }
        write(file, &text)
    }

    /// A request of each to which the origin answers with the session's cookie.
    pub(crate) fn write_logins(&self, file: &Path) -> Result<()> {
        let mut text = String::new();
        for session in &self.0 {
            let _ = writeln!(text, "/cookie/{SESSION}={}", session.id);
        }
        write(file, &text)
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(group.get(at).copied().unwrap_or(0))
        });
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= group.len() {
                char::from(DIGITS[value as usize])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn sessions_differ_and_so_do_seeds() {
        let (one, other) = (Sessions::new(1000, 1), Sessions::new(1000, 2));
        let ids: HashSet<_> = one.0.iter().chain(&other.0).map(|one| &one.id).collect();
        assert_eq!(ids.len(), 2000);
    }

    #[test]
    fn a_token_is_what_the_rule_computes() {
        let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
        let tag = hmac::sign(&key, b"abcdefghijklmnopqrstuvwx:127.0.0.1");
        // openssl dgst -sha256 -hmac $KEY -binary | base64
        assert_eq!(
            base64(tag.as_ref()),
            "y9rj8a2HWBm7X8lXWQjm07IR894sT4JOPO2JrallWRU="
        );
    }
}
