//! Reads tables whose keys are names that the operator chooses: headers, fields, patterns.

use std::ops::Range;

use toml::de::DeValue;

use super::form::Form;
use super::say::say;
use super::scalar::Scalar;
use crate::config::file::Spanned;
use crate::config::value::ValueError;

/// Texts for messages about a table whose keys the operator chooses.
pub struct FreeKeys {
    /// Example of the table, in TOML.
    pub example: &'static str,
    /// Noun for a key, with its article: `a pattern`.
    pub noun: &'static str,
    /// Example of a key that contains dots, so that it needs quotes; without them here.
    pub dotted: &'static str,
    /// Whether `name` is a key of the table that a value may be: `live.quota = …` then needs no quotes.
    pub is_inner: fn(&str) -> bool,
}

impl Scalar<'_, '_> {
    /// Reads a table of `NAME = "value"`, in the file's order; `parse_name` and `parse` parse the two sides.
    pub fn pairs<K: PartialEq, V>(
        mut self,
        example: &str,
        parse_name: impl Fn(&str) -> Result<K, ValueError>,
        parse: impl Fn(&str) -> Result<V, ValueError>,
    ) -> Option<Vec<(K, V)>> {
        let DeValue::Table(entries) = self.node.get_ref() else {
            self.mistyped("a table", format!("`{example}`"));
            return None;
        };
        let mut pairs: Vec<(K, V)> = Vec::new();
        for (key, node) in entries {
            let (text, span) = (key.get_ref().as_ref(), key.span());
            let name = match parse_name(text) {
                Ok(name) if pairs.iter().any(|(known, _)| *known == name) => {
                    let message = format!("`{text}` is given twice");
                    (self.report.mistake(&span, message, ""))
                        .hint("names that differ only in case are the same name");
                    continue;
                }
                Ok(name) => Some(name),
                Err(wrong) => {
                    say(self.report, wrong, text, span);
                    None
                }
            };
            let value = self.part(format!("`{text}`"), node);
            let value = value.read_as_it_stands(&Form::Text("2"), &parse);
            pairs.extend(name.zip(value));
        }
        Some(pairs)
    }

    /// Reads a table whose keys the operator chooses, in the file's order; `quoted` returns a key as messages show it.
    pub fn entries<V>(
        mut self,
        keys: &FreeKeys,
        quoted: impl Fn(&str) -> String,
        read: impl Fn(Scalar<'_, '_>) -> Option<V>,
    ) -> Option<Vec<(Spanned<String>, Spanned<V>)>> {
        let DeValue::Table(entries) = self.node.get_ref() else {
            self.mistyped("a table", format!("`{}`", keys.example));
            return None;
        };
        let mut all = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            let (value, span) = (key.get_ref().as_ref().to_owned(), key.span());
            if self.lacks_quotes(keys, &span, node) {
                let message = format!(
                    "the key that begins with `{}` has dots but no quotes",
                    quoted(&value)
                );
                (self
                    .report
                    .mistake(&span, message, format!("{} in quotes", keys.noun)))
                .hint(format!("write `\"{}\" = …`", keys.dotted));
                continue;
            }
            let read = read(self.part(format!("`{}`", quoted(&value)), node));
            all.extend(read.map(|read| {
                (
                    Spanned { value, span },
                    Spanned {
                        value: read,
                        span: node.span(),
                    },
                )
            }));
        }
        Some(all)
    }

    /// Returns whether an entry was meant as a single key: its dots have made tables of it.
    fn lacks_quotes(
        &self,
        keys: &FreeKeys,
        key: &Range<usize>,
        node: &toml::Spanned<DeValue<'_>>,
    ) -> bool {
        let DeValue::Table(inner) = node.get_ref() else {
            return false;
        };
        let raw = |span| self.source.text.get(span).unwrap_or_default();
        !raw(node.span()).starts_with(['{', '['])
            && !raw(key.clone()).starts_with(['"', '\''])
            && !inner.keys().any(|key| (keys.is_inner)(key.get_ref()))
    }
}
