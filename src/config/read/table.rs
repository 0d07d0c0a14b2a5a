//! Walks a table of the parsed file: takes the keys that the options name, and reports all others.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::messages::{nameless, unknown};
use super::say::say;
use super::scalar::Scalar;
use super::source::FileSource;
use crate::config::file::{Table, UnreadParts};
use crate::config::options::TableSpec;
use crate::config::report::Report;
use crate::config::value::name;

/// A table that is being read, and where its mistakes go.
pub(super) struct Reader<'t, 'r> {
    pub(super) entries: &'t DeTable<'t>,
    pub(super) source: FileSource<'t>,
    pub(super) lost: &'r UnreadParts,
    pub(super) report: &'r mut Report,
}

impl<'t> Reader<'t, '_> {
    /// Reads the keys of this table and of the tables in it that fill the same value.
    pub(super) fn read<T: Clone + Default + PartialEq>(
        &mut self,
        keys: &'static TableSpec<T>,
        name: &str,
        span: Range<usize>,
    ) -> Table<T> {
        let mut table = Table {
            name: name.into(),
            span: span.clone(),
            value: keys.unset(),
            ..Table::default()
        };
        self.fill(keys, &span, &mut table);
        table
    }

    fn fill<T: Clone + Default + PartialEq>(
        &mut self,
        keys: &'static TableSpec<T>,
        span: &Range<usize>,
        table: &mut Table<T>,
    ) {
        let (about, mistakes) = (&keys.about, self.report.count());
        for (key, value) in self.entries {
            let (span, key) = (key.span(), key.get_ref().as_ref());
            if !about.names().any(|known| known == key) {
                let unknown_key = (key, value.get_ref());
                unknown(self.report, self.source, about, unknown_key, span);
            }
        }
        for (key, field) in keys.keys() {
            if let Some(node) = self.entries.get(key.name)
                && field.read(
                    self.scalar(format!("`{}`", key.name), node),
                    &mut table.value,
                )
            {
                table.places.push((&key.path, node.span()));
            }
        }
        let inner = keys.inner.iter().filter_map(|(name, inner)| {
            let (span, entries) = self.table(name, inner.about.title)?;
            Some((*name, inner, span, entries))
        });
        let inner: Vec<_> = inner.collect();
        let is_spoiled = self.lost.has_unreadable_statement(span);
        if self.report.count() > mistakes || is_spoiled {
            table.incomplete.push(about.title);
        } else {
            let required = about.keys.iter().filter(|key| key.is_required());
            for key in required.filter(|key| !self.entries.contains_key(key.name)) {
                let (noun, key, example) = (about.noun, key.name, &key.example);
                let message = match &*table.name {
                    "" => format!("{noun} lacks `{key}`"),
                    name => format!("{noun} `{name}` lacks `{key}`"),
                };
                let expected = format!("a table with `{key}`");
                (self.report.mistake(span, message, expected))
                    .hint(format!("add `{key} = {example}`"));
            }
        }
        for (name, inner, span, entries) in inner {
            table.places.push((name, span.clone()));
            self.within(entries).fill(inner, &span, table);
        }
    }

    /// Reads a table in this one that fills a value of its own.
    pub(super) fn single<T: Clone + Default + PartialEq>(
        &mut self,
        key: &'static str,
        keys: &'static TableSpec<T>,
    ) -> Table<T> {
        match self.table(key, keys.about.title) {
            Some((span, entries)) => self.within(entries).read(keys, key, span),
            None => Table {
                value: keys.unset(),
                ..Table::default()
            },
        }
    }

    /// Reads each table of `[key.NAME]`, in the file's order.
    pub(super) fn named<T: Clone + Default + PartialEq>(
        &mut self,
        key: &'static str,
        keys: &'static TableSpec<T>,
    ) -> Vec<Table<T>> {
        let Some((_, entries)) = self.table(key, keys.about.title) else {
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (key, node) in entries {
            let (text, span) = (key.get_ref().as_ref(), key.span());
            let DeValue::Table(entries) = node.get_ref() else {
                nameless(self.report, &keys.about, text, span);
                continue;
            };
            if let Err(wrong) = name(text) {
                say(self.report, wrong, text, span.clone());
            }
            tables.push(self.within(entries).read(keys, text, span));
        }
        tables
    }

    /// Reads each table of `[[key]]`.
    pub(super) fn each<T: Clone + Default + PartialEq>(
        &mut self,
        key: &'static str,
        keys: &'static TableSpec<T>,
    ) -> Vec<Table<T>> {
        let (title, mut tables) = (keys.about.title, Vec::new());
        let Some(node) = self.entries.get(key) else {
            return tables;
        };
        let mut scalar = self.scalar(format!("`{key}`"), node);
        let DeValue::Array(items) = node.get_ref() else {
            let single = node.get_ref().is_table();
            scalar
                .mistyped("a list of tables", format!("`{title}`, once for each"))
                .maybe_hint(single.then(|| "double the brackets".to_owned()));
            return tables;
        };
        for item in items {
            if let DeValue::Table(entries) = item.get_ref() {
                tables.push(self.within(entries).read(keys, "", item.span()));
            } else {
                let mut scalar = self.scalar(format!("an item of `{key}`"), item);
                scalar.mistyped("a table", format!("`{title}`"));
            }
        }
        tables
    }

    /// Returns the place of `key` and the table that it holds; reports a value that is not a table.
    fn table(&mut self, key: &str, title: &str) -> Option<(Range<usize>, &'t DeTable<'t>)> {
        let (written, node) = self.entries.get_key_value(key)?;
        if let DeValue::Table(entries) = node.get_ref() {
            return Some((written.span(), entries));
        }
        let mut scalar = self.scalar(format!("`{key}`"), node);
        scalar.mistyped("a table", format!("`{title}`"));
        None
    }

    fn within(&mut self, entries: &'t DeTable<'t>) -> Reader<'t, '_> {
        Reader {
            entries,
            source: self.source,
            lost: self.lost,
            report: self.report,
        }
    }

    fn scalar(&mut self, subject: String, node: &'t Spanned<DeValue<'t>>) -> Scalar<'t, '_> {
        Scalar {
            subject,
            node,
            source: self.source,
            report: self.report,
            of_list: None,
        }
    }
}

impl Scalar<'_, '_> {
    /// Reads the value as a table with these keys; returns `None` if it is not a table.
    pub fn table<T: Clone + Default + PartialEq>(
        &mut self,
        keys: &'static TableSpec<T>,
    ) -> Option<T> {
        let DeValue::Table(entries) = self.node.get_ref() else {
            return None;
        };
        // An item of a list has no name of its own.
        let name = self.subject.strip_prefix('`').unwrap_or_default();
        let name = name.trim_end_matches('`').to_owned();
        let mut reader = Reader {
            entries,
            source: self.source,
            lost: &UnreadParts::default(),
            report: self.report,
        };
        Some(reader.read(keys, &name, self.node.span()).value)
    }
}
