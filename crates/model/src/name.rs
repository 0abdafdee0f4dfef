//! Names of configured things, and references to them. A reference has its own type, so that a pool's name is never
//! looked up among monitors; that what it names exists is checked when the configuration is read.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::MemberAddress;

/// The name of a virtual, pool, member, monitor, TLS profile, address list, rule or data group. Cheap to clone.
///
/// 1 to 128 letters, digits, `.`, `_`, `-`, `:`, `[`, `]` and `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The name, where `text` can be one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fits = (1..=128).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-:[]/".contains(&b));
        fits.then(|| Self(text.into()))
    }

    /// The name of what has none but its address.
    pub(crate) fn of_address(address: &MemberAddress) -> Self {
        Self(address.to_string().into())
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Name);

        impl Deref for $name {
            type Target = Name;
            fn deref(&self) -> &Name {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

reference! {
    /// Names a pool of [`Config::pools`](crate::Config::pools).
    PoolName
}
reference! {
    /// Names a monitor of [`Config::monitors`](crate::Config::monitors).
    MonitorName
}
reference! {
    /// Names a profile of [`Config::tls_profiles`](crate::Config::tls_profiles).
    TlsProfileName
}
reference! {
    /// Names a rule of [`Config::rules`](crate::Config::rules).
    RuleName
}
reference! {
    /// Names a list of [`Config::address_lists`](crate::Config::address_lists).
    AddressListName
}
