//! The typed configuration: what Headgate can be told, its defaults, and how YAML becomes it with errors that name
//! file, line and column. Pure: files and environment come in through [`Source`]; applying it is the engines' work.
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

mod config;
mod name;
mod text;
mod units;

pub use config::*;
pub use name::{AddressListName, MonitorName, Name, PoolName, TlsProfileName};
pub use text::{
    Content, FieldName, FieldValue, FilePath, HostPattern, MemberAddress, Secret, StatusSet,
    Template, TemplatePart, Variable,
};
pub use units::{Bytes, Percent};
