//! Walks a table of the parsed file: takes known keys, and reports every other.
//!
//! [`Table::open`] settles which keys may stand there; each read then takes one key and answers
//! none if it is absent or wrong, the latter with a mistake in the report. A list keeps the items
//! that could be read.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::keys::Keys;
use super::scalar::Scalar;
use super::variables::Env;
use super::wording::{mistyped, nameless, said_of, unknown};
use crate::config::file::{At, Named};
use crate::config::report::{Mistake, Report};
use crate::config::value::{Wrong, bytes_text, duration, duration_text, name, size, word};

/// The file's text, and what its variables stand for.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) text: &'t str,
    pub(super) env: &'t Env<'t>,
}

/// A table whose keys are being taken.
pub(super) struct Table<'t, 'r> {
    keys: &'static Keys,
    entries: &'t DeTable<'t>,
    pub(super) source: Source<'t>,
    pub(super) report: &'r mut Report,
    /// Mistakes that were known before, or belong to tables in this one.
    foreign: usize,
}

impl<'t, 'r> Table<'t, 'r> {
    /// Opens a table, and reports the keys it should not have.
    pub(super) fn open(
        keys: &'static Keys,
        entries: &'t DeTable<'t>,
        source: Source<'t>,
        report: &'r mut Report,
    ) -> Self {
        let foreign = report.count();
        for (key, _) in entries {
            let (span, key) = (key.span(), key.get_ref().as_ref());
            if keys.to_come.contains(&key) {
                report.add(
                    Mistake::at(span, format!("`{key}` is not available yet")).hint("leave it out"),
                );
            } else if !keys.working.contains(&key) {
                report.add(unknown(keys, key, span));
            }
        }
        Self {
            keys,
            entries,
            source,
            report,
            foreign,
        }
    }

    /// Whether a named table or a route may have been lost whole: what refers to it cannot be judged.
    pub(super) fn has_lost_tables(&self) -> bool {
        let named = ["listeners", "upstreams", "policies"];
        self.entries.iter().any(|(key, node)| {
            let (key, value) = (key.get_ref().as_ref(), node.get_ref());
            match value {
                DeValue::Table(tables) if named.contains(&key) => {
                    tables.values().any(|table| !table.get_ref().is_table())
                }
                _ if named.contains(&key) => true,
                _ if key == "routes" => !value.is_array(),
                // A table of a name that is not known may be one of these, misspelled.
                _ => {
                    let is_known = self.keys.all().any(|known| known == key);
                    (value.is_table() || value.is_array()) && !is_known
                }
            }
        })
    }

    /// Whether a mistake was found among the keys of this table so far.
    pub(super) fn is_incomplete(&self) -> bool {
        self.report.count() > self.foreign
    }

    pub(super) fn find(&mut self, key: &'static str) -> Option<Scalar<'t, '_>> {
        debug_assert!(self.keys.working.contains(&key), "{key} is in the list");
        let node = self.entries.get(key)?;
        Some(Scalar {
            subject: format!("`{key}`"),
            node,
            source: self.source,
            report: self.report,
        })
    }

    /// Takes a string that parses itself; `such_as` is an example.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        such_as: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<At<T>> {
        self.find(key)?.text(such_as, parse)
    }

    /// Takes a string that a later stage judges.
    pub(super) fn free_text(&mut self, key: &'static str, such_as: &str) -> Option<At<String>> {
        self.find(key)?.free_text(such_as)
    }

    /// Takes one of `words`; those of `to_come` are known, but not available.
    pub(super) fn word<T: Clone>(
        &mut self,
        key: &'static str,
        words: &[(&str, T)],
        to_come: &[&str],
    ) -> Option<At<T>> {
        let parse = |text: &str| word(text, words, to_come);
        self.text(key, words[0].0, parse)
    }

    /// Takes a whole number within `range`.
    pub(super) fn number<N: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<At<N>> {
        self.find(key)?.number(range)
    }

    /// Takes a duration within `range`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let parse = |text: &str| match duration(text)? {
            duration if range.contains(&duration) => Ok(duration),
            _ => {
                let [least, most] = [range.start(), range.end()].map(|d| duration_text(*d));
                let expected = format!("a duration from {least} to {most}");
                Err(Wrong::new("is out of range", expected))
            }
        };
        plain(self.text(key, "30s", parse))
    }

    /// Takes a size in bytes within `range`: a string, or a number of bytes.
    pub(super) fn size(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
    ) -> Option<At<u64>> {
        let parse = |text: &str| match size(text)? {
            size if range.contains(&size) => Ok(size),
            _ => {
                let [least, most] = [range.start(), range.end()].map(|b| bytes_text(*b));
                let expected = format!("a size from {least} to {most}");
                Err(Wrong::new("is out of range", expected))
            }
        };
        self.find(key)?.integer_or_text("64KiB", parse)
    }

    /// Takes a share: a fraction, or a string with a variable.
    pub(super) fn ratio(&mut self, key: &'static str) -> Option<f64> {
        self.find(key)?.ratio()
    }

    /// Takes `true` or `false`.
    pub(super) fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.find(key)?.boolean()
    }

    /// Reads a table in this one.
    pub(super) fn table<T: Default>(
        &mut self,
        key: &'static str,
        keys: &'static Keys,
        read: impl Fn(&mut Table<'t, '_>) -> T,
    ) -> T {
        match self.entries(key, keys.title) {
            Some(entries) => self.read(keys, entries, &read),
            None => T::default(),
        }
    }

    /// Reads a table in this one that may be absent; its place is its key's.
    pub(super) fn table_at<T>(
        &mut self,
        key: &'static str,
        keys: &'static Keys,
        read: impl Fn(&mut Table<'t, '_>) -> T,
    ) -> Option<At<T>> {
        let entries = self.entries(key, keys.title)?;
        let (written, _) = self.entries.get_key_value(key)?;
        let (value, span) = (self.read(keys, entries, &read), written.span());
        Some(At { value, span })
    }

    fn read<T>(
        &mut self,
        keys: &'static Keys,
        entries: &'t DeTable<'t>,
        read: &impl Fn(&mut Table<'t, '_>) -> T,
    ) -> T {
        let before = self.report.count();
        let value = read(&mut Table::open(keys, entries, self.source, self.report));
        self.foreign += self.report.count() - before;
        value
    }

    /// Reads each table of `[key.NAME]`, in the file's order.
    pub(super) fn named<T>(
        &mut self,
        key: &'static str,
        keys: &'static Keys,
        read: impl Fn(&mut Table<'t, '_>) -> T,
    ) -> Vec<Named<T>> {
        let Some(entries) = self.entries(key, keys.title) else {
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (key, node) in entries {
            let (text, span) = (key.get_ref().as_ref(), key.span());
            let DeValue::Table(entries) = node.get_ref() else {
                self.report.add(nameless(keys, text, span));
                continue;
            };
            if let Err(wrong) = name(text) {
                self.report.add(said_of(wrong, text, span.clone()));
            }
            let value = text.to_owned();
            tables.push((At { value, span }, self.read(keys, entries, &read)));
        }
        // A table whose parent is closed later in the file may come out of order.
        tables.sort_by_key(|(name, _)| name.span.start);
        tables
    }

    /// Reads each table of `[[key]]`.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        keys: &'static Keys,
        read: impl Fn(&mut Table<'t, '_>) -> T,
    ) -> Vec<At<T>> {
        let Some(found) = self.find(key) else {
            return Vec::new();
        };
        let (node, mut tables) = (found.node, Vec::new());
        let DeValue::Array(items) = node.get_ref() else {
            let single = node.get_ref().is_table();
            let mistake = mistyped(&found.subject, "a list of tables", node)
                .expected(format!("`{}`, once for each", keys.title))
                .maybe_hint(single.then(|| "double the brackets".to_owned()));
            found.report.add(mistake);
            return tables;
        };
        for item in items {
            if let DeValue::Table(entries) = item.get_ref() {
                let value = self.read(keys, entries, &read);
                let span = item.span();
                tables.push(At { value, span });
            } else {
                let subject = format!("an item of `{key}`");
                let mistake = mistyped(&subject, "a table", item);
                self.report
                    .add(mistake.expected(format!("`{}`", keys.title)));
            }
        }
        tables
    }

    /// Takes a table of NAME = "value", in the file's order; both parse themselves.
    pub(super) fn pairs<K: PartialEq, V>(
        &mut self,
        key: &'static str,
        such_as: &str,
        parse_key: impl Fn(&str) -> Result<K, Wrong>,
        parse: impl Fn(&str) -> Result<V, Wrong>,
    ) -> Vec<(K, V)> {
        let Some(entries) = self.entries(key, such_as) else {
            return Vec::new();
        };
        let mut pairs: Vec<(K, V)> = Vec::new();
        for (key, node) in entries {
            let (text, span) = (key.get_ref().as_ref(), key.span());
            let name = match parse_key(text) {
                Ok(name) if pairs.iter().any(|(known, _)| *known == name) => {
                    let message = format!("`{text}` is given twice");
                    self.report.add(
                        Mistake::at(span, message).hint("names that differ only in case are one"),
                    );
                    continue;
                }
                Ok(name) => Some(name),
                Err(wrong) => {
                    self.report.add(said_of(wrong, text, span));
                    None
                }
            };
            let value = Scalar {
                subject: format!("`{text}`"),
                node,
                source: self.source,
                report: self.report,
            };
            pairs.extend(name.zip(plain(value.text("*", &parse))));
        }
        pairs
    }

    /// Reports what works in name only, if the string at `key` begins with one of `prefixes`.
    pub(super) fn is_to_come(
        &mut self,
        key: &'static str,
        prefixes: &[&str],
        expected: &str,
    ) -> bool {
        let Some(found) = self.find(key) else {
            return false;
        };
        let text = found.node.get_ref().as_str().unwrap_or_default();
        let is_to_come = prefixes.iter().any(|prefix| text.starts_with(prefix));
        if is_to_come {
            let wrong = Wrong::to_come(expected);
            found.report.add(said_of(wrong, text, found.node.span()));
        }
        is_to_come
    }

    fn entries(&mut self, key: &'static str, such_as: &str) -> Option<&'t DeTable<'t>> {
        let found = self.find(key)?;
        let node = found.node;
        if let DeValue::Table(entries) = node.get_ref() {
            return Some(entries);
        }
        let mistake = mistyped(&found.subject, "a table", node);
        found.report.add(mistake.expected(format!("`{such_as}`")));
        None
    }
}

/// Drops the place of a value.
pub(super) fn plain<T>(at: Option<At<T>>) -> Option<T> {
    at.map(|at| at.value)
}
