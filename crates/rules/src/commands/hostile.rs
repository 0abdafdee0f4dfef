//! Throws words at random at commands: whatever they are, a command ends soon, without a panic and within its budget.

use super::testing::{Bench, Dice};
use crate::command::Command;
use crate::value::Value;

const TABLES: &[&[Command]] = &[
    super::array::COMMANDS,
    super::binary::COMMANDS,
    super::clock::COMMANDS,
    super::format::COMMANDS,
    super::info::COMMANDS,
    super::list::COMMANDS,
    super::scan::COMMANDS,
    super::string::COMMANDS,
];

const WORDS: [&str; 44] = [
    "",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "end",
    "end-1",
    "end-9223372036854775807",
    "1e308",
    "-0.0",
    "inf",
    "nan",
    "0x",
    "{",
    "}",
    "a {b c} {}",
    "{a b} {c d}",
    "1 2 3 4",
    "-nocase",
    "-length",
    "-all",
    "-inline",
    "-integer",
    "-real",
    "-dictionary",
    "-index",
    "-start",
    "-unique",
    "-sorted",
    "-format",
    "-gmt",
    "-base",
    "%d%s%*d%.*f%c%5$s",
    "%9999999999s",
    "%-+ #0.30g",
    "%[^a-z]%n%i%x",
    "a*H*@99999999999X*c*",
    "w3x99999999999999999999d*",
    "*[a-\\?*",
    "(a*)*\\1",
    "next monday 12:00 -3 months",
    "99999999 999999999999 years",
];

#[test]
fn no_words_make_a_command_panic_or_run_on() {
    let mut dice = Dice(5);
    let mut bench = Bench::new();
    for _ in 0..40_000 {
        let table = TABLES[dice.below(TABLES.len())];
        let command = &table[dice.below(table.len())];
        let mut words = vec![Value::from(command.name)];
        if !command.subs.is_empty() {
            words.push(Value::from(
                command.subs[dice.below(command.subs.len())].name,
            ));
        }
        for _ in 0..dice.below(6) {
            words.push(if dice.one_in(4) {
                let bytes: Vec<u8> = (0..dice.below(12)).map(|_| dice.below(256) as u8).collect();
                Value::from(bytes)
            } else {
                Value::from(dice.pick(&WORDS))
            });
        }
        bench.limit(100_000, 100_000);
        if let Ok(value) = bench.words(&words) {
            assert!(value.len() < 1 << 20, "{words:?}");
        }
    }
}
