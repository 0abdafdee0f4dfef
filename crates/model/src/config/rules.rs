//! Rules and what they look things up in: data groups, files, geography, reputation; and what a rule may use up.
//! Rules are kept as their text: what it means is the engine's to say.

use std::fmt;
use std::sync::Arc;

use addr::Prefix;

use crate::config::raw::{DataGroupFields, Records, ReputationListFields, RuleFields, feed};
use crate::node::Node;
use crate::setting::{Context, Setting};
use crate::shape::Shape;
use crate::{Bytes, FilePath};
use serde_json::{Value as Json, json};

/// A rule: its text, and the file it stands in.
#[derive(Clone, PartialEq)]
pub struct Rule {
    /// The file, where it stands in one of its own.
    pub file: Option<FilePath>,
    /// Its text, as it was when the configuration was read.
    pub text: Arc<[u8]>,
}

/// A list that rules look things up in.
#[derive(Clone, PartialEq)]
pub struct DataGroup {
    /// What its keys are.
    pub kind: DataGroupType,
    /// Keys and their values that stand in the configuration.
    pub records: Vec<(String, String)>,
    /// A file of more.
    pub file: Option<FilePath>,
    /// What stood in `file` when the configuration was read.
    pub content: Arc<[u8]>,
}

/// A file for rules, with what stood in it when the configuration was read.
#[derive(Clone, PartialEq)]
pub struct RuleFile {
    /// The file.
    pub file: FilePath,
    /// Its content.
    pub content: Arc<[u8]>,
}

/// Addresses with a bad reputation.
#[derive(Clone, Debug, PartialEq)]
pub struct ReputationList {
    /// The file: one prefix or address a line.
    pub file: FilePath,
    /// What rules are told of them.
    pub category: String,
    /// What stood in `file` when the configuration was read.
    pub prefixes: Vec<Prefix>,
}

config! {
    /// What a data group's keys are.
    pub enum DataGroupType {
        /// Texts.
        String = "string",
        /// Whole numbers.
        Integer = "integer",
        /// Addresses and prefixes.
        Address = "address",
    }
}

config! {
    /// Databases that tell the country, place or network of an address.
    pub struct Geography short("a path of a file that exists, or a list of them", short_geography) {
        /// Files in MaxMind's format; the first that knows an address's detail answers.
        pub files: Vec<FilePath> = Vec::new(),
    }
}

config! {
    /// What a rule may use up at one event, so that one that runs away harms no other connection.
    pub struct RuleLimits {
        /// Steps of the machine.
        #[range(1000, 1000000000000.0)]
        pub instructions: u64 = 10_000_000,
        /// Memory of new values.
        #[range(65536, 68719476736.0)]
        pub memory: Bytes = Bytes::kib(64 * 1024),
        /// Procedures and scripts within each other.
        #[range(10, 10000)]
        pub recursion: usize = 200,
        /// The most of a body or stream that is held back for a rule.
        #[range(1024, 1073741824)]
        pub collect: Bytes = Bytes::kib(1024),
        /// Entries of the table that all rules share. Taken when the process starts.
        #[range(1, 1000000000)]
        pub table_entries: usize = 1_000_000,
        /// Memory of that table. Taken when the process starts.
        #[range(65536, 1099511627776.0)]
        pub table_memory: Bytes = Bytes::kib(256 * 1024),
    }
}

impl Setting for Rule {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let RuleFields { file, text } = RuleFields::decode(node, cx)?;
        let text = match (&file, node.get("file")) {
            (Some(file), Some(node)) => cx.read_bytes(file.as_path(), node)?,
            _ => text.unwrap_or_default().into_bytes(),
        };
        Some(Self {
            file,
            text: text.into(),
        })
    }

    fn encode(&self) -> Json {
        match &self.file {
            Some(file) => json!({"file": file.encode()}),
            None => json!({"text": String::from_utf8_lossy(&self.text)}),
        }
    }

    fn shape() -> Shape {
        RuleFields::shape()
    }
}

impl Setting for DataGroup {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let DataGroupFields {
            kind,
            records,
            file,
        } = DataGroupFields::decode(node, cx)?;
        let content = match (&file, node.get("file")) {
            (Some(file), Some(node)) => cx.read_bytes(file.as_path(), node)?,
            _ => Vec::new(),
        };
        Some(Self {
            kind,
            records: records.0,
            file,
            content: content.into(),
        })
    }

    fn encode(&self) -> Json {
        DataGroupFields {
            kind: self.kind,
            records: Records(self.records.clone()),
            file: self.file.clone(),
        }
        .encode()
    }

    fn shape() -> Shape {
        DataGroupFields::shape()
    }
}

impl Setting for RuleFile {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let file = FilePath::decode(node, cx)?;
        let content = cx.read_bytes(file.as_path(), node)?.into();
        Some(Self { file, content })
    }

    fn encode(&self) -> Json {
        self.file.encode()
    }

    fn shape() -> Shape {
        FilePath::shape()
    }
}

impl Setting for ReputationList {
    fn decode(node: &Node, cx: &mut Context<'_>) -> Option<Self> {
        let ReputationListFields { file, category } = ReputationListFields::decode(node, cx)?;
        let prefixes = feed(&file, node.get("file")?, cx)?;
        Some(Self {
            file,
            category,
            prefixes,
        })
    }

    fn encode(&self) -> Json {
        ReputationListFields {
            file: self.file.clone(),
            category: self.category.clone(),
        }
        .encode()
    }

    fn shape() -> Shape {
        ReputationListFields::shape()
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({:?}, {} bytes)", self.file, self.text.len())
    }
}

impl fmt::Debug for DataGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, file) = (self.records.len(), &self.file);
        write!(f, "DataGroup({:?}, {count} records, {file:?})", self.kind)
    }
}

impl fmt::Debug for RuleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleFile({:?})", self.file)
    }
}

fn short_geography(node: &Node, cx: &mut Context<'_>) -> Option<Geography> {
    let files = Vec::decode(node, cx)?;
    Some(Geography { files })
}
