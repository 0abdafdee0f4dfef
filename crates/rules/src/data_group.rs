//! Data groups: lists of strings, integers or prefixes, each with a value, that rules look things up in.
//!
//! A group is made once and never changes, so that workers can share it. F5's external files are read here; where a file's
//! text or a configuration's pairs come from is the caller's business.

mod file;
mod index;

pub use file::{FileError, parse_address};

use addr::Prefix;
use aho_corasick::AhoCorasick;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use index::Nested;
use std::hash::BuildHasher;
use std::net::IpAddr;

/// What a data group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Texts.
    String,
    /// Integers.
    Integer,
    /// Addresses and prefixes of them.
    Address,
}

/// How an item is compared with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Both are the same; of addresses: the record's prefix holds the item.
    Equals,
    /// The left one begins with the right one.
    StartsWith,
    /// The left one ends with the right one.
    EndsWith,
    /// The right one stands somewhere in the left one.
    Contains,
}

/// A list of names with their values.
pub struct DataGroup {
    kind: Kind,
    records: Vec<Record>,
    exact: HashTable<u32>,
    hasher: FixedState,
    forwards: Nested,
    backwards: Nested,
    within: Option<AhoCorasick>,
    prefixes: Prefixes,
}

/// A record of a data group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name, as it was written.
    pub name: Box<[u8]>,
    /// Its value; empty for none.
    pub value: Box<[u8]>,
}

/// Why pairs make no data group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The name is no integer.
    #[error("`{name}` is not an integer")]
    Integer {
        /// The name.
        name: String,
    },
    /// The name is neither an address nor a prefix.
    #[error("`{name}` is neither an address nor a prefix of addresses")]
    Address {
        /// The name.
        name: String,
    },
    /// There are more than fit.
    #[error("a data group has at most {} records", u32::MAX)]
    Many,
}

/// Prefixes in their order, and which of them holds which.
#[derive(Default)]
struct Prefixes {
    sorted: Vec<(Prefix, u32)>,
    parents: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl DataGroup {
    /// A data group of names and their values. Of a name that is there twice the last value counts.
    ///
    /// # Errors
    ///
    /// The first name that is not of the group's kind.
    pub fn new<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        kind: Kind,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<DataGroup, RecordError> {
        let hasher = FixedState::with_seed(0x6865_6164_6761_7465);
        let mut records: Vec<Record> = Vec::new();
        let mut exact: HashTable<u32> = HashTable::new();
        let mut nets = Vec::new();
        for (name, value) in pairs {
            let (name, value): (Vec<u8>, Vec<u8>) = (name.into(), value.into());
            let at = u32::try_from(records.len()).map_err(|_| RecordError::Many)?;
            let lossy = || String::from_utf8_lossy(&name).into_owned();
            // What an integer is found by is its plain form.
            let key = match kind {
                Kind::String => name.clone(),
                Kind::Integer => match crate::value::parse_integer(&name) {
                    Some(int) => int.to_string().into_bytes(),
                    None => return Err(RecordError::Integer { name: lossy() }),
                },
                Kind::Address => match parse_address(&name) {
                    Some(prefix) => {
                        nets.push((prefix, at));
                        prefix.to_string().into_bytes()
                    }
                    None => return Err(RecordError::Address { name: lossy() }),
                },
            };
            let hash = hasher.hash_one(&key[..]);
            let keys = |at: &u32| &*records[*at as usize].name;
            let stored = if kind == Kind::Integer { &key } else { &name };
            if let Some(&before) = exact.find(hash, |at| keys(at) == &**stored) {
                records[before as usize].value = value.into();
                continue;
            }
            // Addresses are found by their prefix, so that their texts need no index.
            if kind != Kind::Address {
                exact.insert_unique(hash, at, |at| hasher.hash_one(&*records[*at as usize].name));
            }
            records.push(Record {
                name: stored.clone().into(),
                value: value.into(),
            });
        }
        let names = || records.iter().map(|record| &*record.name);
        let within = match records.len() {
            0..FEW => None,
            _ => AhoCorasick::new(names()).ok(),
        };
        Ok(DataGroup {
            kind,
            forwards: Nested::forwards(names()),
            backwards: Nested::backwards(names()),
            prefixes: Prefixes::new(nets),
            within,
            exact,
            hasher,
            records,
        })
    }

    /// Reads F5's form of an external file. Without a `kind` the first record tells it.
    ///
    /// # Errors
    ///
    /// The first line that is no record.
    pub fn parse_file(kind: Option<Kind>, text: &[u8]) -> Result<DataGroup, FileError> {
        file::parse(kind, text)
    }

    /// What it holds.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its records, in the order in which they were given.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// How many records it has.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The place of the record of that name; of addresses: of the longest prefix that holds it.
    pub fn find(&self, item: &[u8]) -> Option<usize> {
        match self.kind {
            Kind::String => self.exactly(item),
            Kind::Integer => {
                let int = crate::value::Value::Int(crate::value::parse_integer(item)?);
                self.exactly(&int.bytes())
            }
            Kind::Address => self.prefixes.find(parse_address(item)?),
        }
    }

    /// The place of the record of the longest prefix that holds an address.
    pub fn find_address(&self, address: IpAddr) -> Option<usize> {
        self.prefixes.find(Prefix::from(address.to_canonical()))
    }

    /// The place of the record that makes `item operator record` true: of several the longest, of
    /// several for `contains` the first.
    pub fn matching(&self, item: &[u8], operator: Operator) -> Option<usize> {
        match operator {
            Operator::Equals => self.find(item),
            Operator::StartsWith => self.forwards.longest(&self.names(), item),
            Operator::EndsWith => self.backwards.longest(&self.names(), item),
            Operator::Contains => self.contained(item).into_iter().min(),
        }
    }

    /// Whether there is such a record.
    pub fn matches(&self, item: &[u8], operator: Operator) -> bool {
        match (operator, &self.within) {
            (Operator::Contains, Some(within)) => within.is_match(item),
            _ => self.matching(item, operator).is_some(),
        }
    }

    /// The places of all records that make `item operator record` true.
    pub fn all_matching(&self, item: &[u8], operator: Operator) -> Vec<usize> {
        match operator {
            Operator::Equals if self.kind == Kind::Address => match parse_address(item) {
                Some(prefix) => self.prefixes.holding(prefix).collect(),
                None => Vec::new(),
            },
            Operator::Equals => self.find(item).into_iter().collect(),
            Operator::StartsWith => self.forwards.all(&self.names(), item),
            Operator::EndsWith => self.backwards.all(&self.names(), item),
            Operator::Contains => {
                let mut all = self.contained(item);
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    }

    /// The places of the records that make `record operator item` true, in the order of the records.
    pub fn searching(&self, operator: Operator, item: &[u8]) -> Vec<usize> {
        let mut all = match operator {
            Operator::Equals => return self.all_matching(item, Operator::Equals),
            Operator::StartsWith => self.forwards.beginning(&self.names(), item),
            Operator::EndsWith => self.backwards.beginning(&self.names(), item),
            Operator::Contains => {
                let finder = memchr::memmem::Finder::new(item);
                let has = |record: &Record| finder.find(&record.name).is_some();
                (0..self.len())
                    .filter(|at| has(&self.records[*at]))
                    .collect()
            }
        };
        all.sort_unstable();
        all
    }

    fn exactly(&self, name: &[u8]) -> Option<usize> {
        let same = |at: &u32| *self.records[*at as usize].name == *name;
        let at = self.exact.find(self.hasher.hash_one(name), same)?;
        Some(*at as usize)
    }

    fn names<'a>(&'a self) -> impl Fn(u32) -> &'a [u8] {
        |at| &self.records[at as usize].name
    }

    fn contained(&self, item: &[u8]) -> Vec<usize> {
        match &self.within {
            Some(within) => {
                let found = within.find_overlapping_iter(item);
                found.map(|found| found.pattern().as_usize()).collect()
            }
            None => {
                let stands = |at: &usize| memchr::memmem::find(item, &self.records[*at].name);
                (0..self.len()).filter(|at| stands(at).is_some()).collect()
            }
        }
    }
}

impl std::fmt::Debug for DataGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataGroup")
            .field("kind", &self.kind)
            .field("records", &self.records)
            .finish()
    }
}

/// Same kind and records.
impl PartialEq for DataGroup {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.records == other.records
    }
}

impl Prefixes {
    fn new(mut sorted: Vec<(Prefix, u32)>) -> Self {
        sorted.sort_unstable();
        let mut parents = Vec::with_capacity(sorted.len());
        let mut open: Vec<u32> = Vec::new();
        for (n, (prefix, _)) in sorted.iter().enumerate() {
            let holds = |at: &u32| holds(&sorted[*at as usize].0, prefix);
            while open.last().is_some_and(|at| !holds(at)) {
                open.pop();
            }
            parents.push(open.last().copied().unwrap_or(NONE));
            open.push(n as u32);
        }
        Prefixes { sorted, parents }
    }

    fn find(&self, item: Prefix) -> Option<usize> {
        self.holding(item).next()
    }

    /// Records whose prefixes hold the item, longest first.
    fn holding(&self, item: Prefix) -> impl Iterator<Item = usize> {
        // Prefixes of one network stand shortest first, so that what holds the item is the last that is
        // not behind it, or around that.
        let after = self.sorted.partition_point(|(prefix, _)| *prefix <= item);
        let up = |at: u32| (at != NONE).then_some(at);
        let first = up((after as u32).wrapping_sub(1));
        std::iter::successors(first, move |at| up(self.parents[*at as usize]))
            .map(|at| &self.sorted[at as usize])
            .filter(move |(prefix, _)| holds(prefix, &item))
            .map(|(_, record)| *record as usize)
    }
}

fn holds(outer: &Prefix, inner: &Prefix) -> bool {
    outer.len() <= inner.len() && outer.contains(inner.network())
}

/// So few names are looked for one by one.
const FEW: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strings(names: &[&str]) -> DataGroup {
        DataGroup::new(Kind::String, names.iter().map(|name| (*name, ""))).unwrap()
    }

    fn name(group: &DataGroup, at: Option<usize>) -> Option<String> {
        at.map(|at| String::from_utf8(group.records()[at].name.to_vec()).unwrap())
    }

    #[test]
    fn the_longest_name_that_an_item_begins_or_ends_with_is_found() {
        let group = strings(&["/", "/a", "/a/b", "/a/b/c", "/aa", ".gif", "f"]);
        let found = |item: &str, operator| name(&group, group.matching(item.as_bytes(), operator));
        assert_eq!(found("/a/b/x", Operator::StartsWith).unwrap(), "/a/b");
        assert_eq!(found("/az", Operator::StartsWith).unwrap(), "/a");
        assert_eq!(found("x", Operator::StartsWith), None);
        assert_eq!(found("x.gif", Operator::EndsWith).unwrap(), ".gif");
        assert_eq!(found("x.jif", Operator::EndsWith).unwrap(), "f");
    }

    #[test]
    fn the_longest_prefix_that_holds_an_address_is_found() {
        let nets = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3",
            "2001:db8::/32",
        ];
        let group = DataGroup::new(Kind::Address, nets.map(|net| (net, net))).unwrap();
        let found = |item: &str| name(&group, group.find(item.as_bytes()));
        assert_eq!(found("10.1.2.3").unwrap(), "10.1.2.3");
        assert_eq!(found("10.1.2.4").unwrap(), "10.1.0.0/16");
        assert_eq!(found("10.200.0.1%1").unwrap(), "10.0.0.0/8");
        assert_eq!(found("10.0.0.0/9").unwrap(), "10.0.0.0/8");
        assert_eq!(found("8.0.0.0/5").unwrap(), "0.0.0.0/0");
        assert_eq!(found("::ffff:10.1.9.9").unwrap(), "10.1.0.0/16");
        assert_eq!(found("2001:db8::1").unwrap(), "2001:db8::/32");
        assert_eq!(found("2002::"), None);
        assert_eq!(found("no address"), None);
        let all = group.all_matching(b"10.1.2.3", Operator::Equals);
        assert_eq!(all, [3, 2, 1, 0]);
    }

    #[test]
    fn integers_are_found_by_what_they_mean() {
        let group = DataGroup::new(Kind::Integer, [("80", "http"), ("0x1bb", "https")]).unwrap();
        assert_eq!(group.find(b" 443"), Some(1));
        assert_eq!(group.find(b"81"), None);
        let error = DataGroup::new(Kind::Integer, [("x", "")]).unwrap_err();
        assert_eq!(error.to_string(), "`x` is not an integer");
    }

    #[test]
    fn of_a_name_that_is_there_twice_the_last_value_counts() {
        let group = DataGroup::new(Kind::String, [("a", "1"), ("b", "2"), ("a", "3")]).unwrap();
        assert_eq!(group.len(), 2);
        assert_eq!(&*group.records()[0].value, b"3");
    }

    fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let word = prop::collection::vec(prop::sample::select(&b"ab"[..]), 0..5);
        prop::collection::vec(word, 0..14)
    }

    fn holds_as(operator: Operator, left: &[u8], right: &[u8]) -> bool {
        match operator {
            Operator::Equals => left == right,
            Operator::StartsWith => left.starts_with(right),
            Operator::EndsWith => left.ends_with(right),
            Operator::Contains => memchr::memmem::find(left, right).is_some(),
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_comparing_every_record_finds(names in words(), items in words()) {
            let group = DataGroup::new(Kind::String, names.iter().map(|n| (n.clone(), ""))).unwrap();
            let places = |holds: &dyn Fn(&[u8]) -> bool| -> Vec<usize> {
                (0..group.len()).filter(|at| holds(&group.records()[*at].name)).collect()
            };
            for item in &items {
                for operator in [Operator::Equals, Operator::StartsWith, Operator::EndsWith, Operator::Contains] {
                    let wanted = places(&|name| holds_as(operator, item, name));
                    let mut all = group.all_matching(item, operator);
                    all.sort_unstable();
                    prop_assert_eq!(&all, &wanted);
                    prop_assert_eq!(group.matches(item, operator), !wanted.is_empty());
                    let one = group.matching(item, operator);
                    if operator == Operator::Contains {
                        prop_assert_eq!(one, wanted.first().copied());
                    } else {
                        let longest = wanted.iter().copied().max_by_key(|at| group.records()[*at].name.len());
                        prop_assert_eq!(one, longest);
                    }
                    let wanted = places(&|name| holds_as(operator, name, item));
                    prop_assert_eq!(group.searching(operator, item), wanted);
                }
            }
        }
    }
}
