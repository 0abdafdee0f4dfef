//! Where an address is, by databases in MaxMind's format.

use maxminddb::{MaxMindDbError, PathElement, Reader};
use rules::value::Value;
use std::net::IpAddr;
use std::path::Path;

/// Databases; the first that knows answers.
#[derive(Default)]
pub(crate) struct Geography(Vec<Reader<Vec<u8>>>);

impl Geography {
    /// Reads a database.
    pub(crate) fn open(path: &Path) -> Result<Reader<Vec<u8>>, MaxMindDbError> {
        Reader::open_readfile(path)
    }

    pub(crate) fn new(databases: Vec<Reader<Vec<u8>>>) -> Self {
        Geography(databases)
    }

    /// What stands at `path` in the address's record. Numbers in it are places in lists.
    pub(crate) fn find(&self, address: IpAddr, path: &[&str]) -> Option<Value> {
        let path: Vec<_> = path.iter().map(|part| element(part)).collect();
        self.0.iter().find_map(|database| {
            let found = database.lookup(address.to_canonical()).ok()?;
            if !found.has_data() {
                return None;
            }
            if let Ok(text) = found.decode_path::<&str>(&path) {
                return text.map(Value::from);
            }
            if let Ok(number) = found.decode_path::<f64>(&path) {
                return number.map(Value::from);
            }
            let number = found.decode_path::<u64>(&path).ok()??;
            Some(Value::from(number as i64))
        })
    }
}

fn element<'a>(part: &'a str) -> PathElement<'a> {
    match part.parse() {
        Ok(place) => PathElement::Index(place),
        Err(_) => PathElement::Key(part),
    }
}
