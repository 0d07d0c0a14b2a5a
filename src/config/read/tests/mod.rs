//! Every key is read, and none is forgotten.

mod reference;

use std::fmt::Write as _;

use super::*;
use crate::config::options::{TABLES, TableDoc};

/// Returns a file with one line in the given table; a table that contains that one has its required keys.
fn within(table: &TableDoc, line: &str) -> String {
    let mut text = String::new();
    for outer in TABLES
        .iter()
        .filter(|outer| table.outer(&TABLES) == Some(outer.title))
    {
        let _ = writeln!(text, "{}", outer.title);
        for key in outer.keys.iter().filter(|key| key.is_required()) {
            let _ = writeln!(text, "{} = {}", key.name, key.example);
        }
    }
    if table.title.starts_with('[') {
        let _ = writeln!(text, "{}", table.title);
    }
    text + line + "\n"
}

/// No key takes a date, so each must report one.
#[test]
fn every_working_key_is_read() {
    for table in TABLES.iter() {
        let keys = table.keys.iter().map(|key| key.name);
        for key in keys.chain(table.tables.iter().copied()) {
            let text = within(table, &format!("{key} = 1979-05-27"));
            let (_, report, _) = read(&(&text).into(), &|_| None);
            let said: Vec<_> = (report.mistakes().iter())
                .map(|mistake| &text[mistake.span.clone()])
                .collect();
            assert_eq!(said, ["1979-05-27"], "{text}");
        }
    }
}
