//! The typed configuration: what Headgate can be told, its defaults, and how YAML becomes it with errors that name
//! file, line and column. Pure: files and environment come in through [`Source`]; applying it is the engines' work.
#![forbid(unsafe_code)]

#[macro_use]
mod macros;

mod check;
mod config;
mod decode_text;
mod error;
mod load;
mod name;
mod net;
mod node;
mod reference;
mod schema;
mod setting;
mod shape;
mod source;
mod text;
mod units;

pub use config::*;
pub use error::{Error, ErrorKind, Errors, Place};
pub use load::{parse, parse_text};
pub use name::{AddressListName, MonitorName, Name, PoolName, RuleName, TlsProfileName};
pub use net::{InterfaceName, Listen, PortSet};
pub use reference::reference;
pub use schema::json_schema;
pub use source::{MemorySource, Source};
pub use text::{
    Content, FieldName, FieldValue, FilePath, HostPattern, MemberAddress, Secret, StatusSet,
    Template, TemplatePart, Variable,
};
pub use units::{Bytes, Percent};
