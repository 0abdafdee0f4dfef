//! Data groups: lists of strings, integers or prefixes, each with a value, that rules look things up in.
pub struct DataGroup;
