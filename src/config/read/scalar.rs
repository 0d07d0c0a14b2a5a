//! One value of the parsed file on its way to what its key wants.

use std::borrow::Cow;
use std::ops::Range;

use toml::de::{DeInteger, DeValue};

use super::form::Form;
use super::other_variables;
use super::say::say;
use super::source::FileSource;
use super::variables::{Template, expand};
use crate::config::file::Spanned;
use crate::config::report::{Mistake, Report};
use crate::config::secrets::redacted;
use crate::config::value::ValueError;

/// A value that one key wants.
pub struct Scalar<'t, 'r> {
    /// What messages call it: `` `quota` ``, or an item of it.
    pub(super) subject: String,
    pub(super) node: &'t toml::Spanned<DeValue<'t>>,
    pub(super) source: FileSource<'t>,
    pub(super) report: &'r mut Report,
}

/// How a list may be written that has one item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OneItem {
    /// In a list.
    InList,
    /// In a list, or without one.
    Plain,
    /// In a list; it is a table.
    Table,
}

impl<'t> Scalar<'t, '_> {
    /// Returns where it stands.
    pub fn span(&self) -> Range<usize> {
        self.node.span()
    }

    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.node.get_ref(), DeValue::Array(_))
    }

    /// Whether it is a table.
    pub fn is_table(&self) -> bool {
        self.node.get_ref().is_table()
    }

    /// Reads a value of this form, whose text parses itself.
    pub fn read<T>(
        mut self,
        form: &Form,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        self.warn_other_variable(form, &parse);
        self.read_as_it_stands(form, parse)
    }

    /// Reads a value in which a variable of another language means what it says.
    fn read_as_it_stands<T>(
        mut self,
        form: &Form,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        let raw = self.raw();
        let is_text = matches!(
            form,
            Form::Text(_) | Form::Secret(_) | Form::NumberOrText(_)
        );
        match (form, self.node.get_ref()) {
            (_, DeValue::String(written)) if is_text || has_variable(written) => {
                let text = self.expand(written)?;
                let mut parsed = parse(&text);
                if let Err(wrong) = &mut parsed
                    && is_other_variable(form, written)
                {
                    wrong.hint = Some(other_variables::HINT.to_owned());
                }
                self.checked(written, &text, parsed)
            }
            (Form::Number { .. } | Form::NumberOrText(_), DeValue::Integer(integer)) => {
                let digits = decimal(integer);
                self.checked(raw, &digits, parse(&digits))
            }
            (Form::Fraction(_), DeValue::Float(_) | DeValue::Integer(_)) => {
                self.checked(raw, raw, parse(&raw.replace('_', "")))
            }
            (Form::Boolean, DeValue::Boolean(_)) => self.checked(raw, raw, parse(raw)),
            (_, other) => {
                let hint = match other {
                    DeValue::Array(items) if is_text && items.len() > 1 => {
                        Some("it takes one value: for several write a table for each".to_owned())
                    }
                    DeValue::Array(_) | DeValue::Table(_) => None,
                    _ if matches!(form, Form::Secret(_)) => None,
                    DeValue::String(text) if is_other_variable(form, text) => {
                        Some(other_variables::HINT.to_owned())
                    }
                    DeValue::String(text) => {
                        (parse(text).is_ok()).then(|| "leave the quotes out".to_owned())
                    }
                    _ if is_text => match parse(raw) {
                        Ok(_) if matches!(other, DeValue::Boolean(_)) => None,
                        Ok(_) => Some(format!("put it in quotes: `\"{raw}\"`")),
                        Err(wrong) => wrong.hint,
                    },
                    _ => None,
                };
                let (wanted, expected) = form.wanted();
                self.mistyped(wanted, expected).maybe_hint(hint);
                None
            }
        }
    }

    /// Reads a string; if files stand in it, `remember` keeps how to read them again.
    pub fn read_with_files<T>(
        self,
        form: &Form,
        parse: impl Fn(&str) -> Result<T, ValueError>,
        remember: impl Fn(T, Template) -> T,
    ) -> Option<T> {
        let files = match self.node.get_ref() {
            DeValue::String(written) => Template::of(written, self.source.env),
            _ => None,
        };
        let value = self.read(form, parse)?;
        Some(match files {
            Some(files) => remember(value, files),
            None => value,
        })
    }

    /// Reads a string that a later stage judges.
    pub fn free_text(self, example: &'static str) -> Option<String> {
        if let DeValue::String(written) = self.node.get_ref()
            && has_variable(written)
        {
            self.report.redact(self.span());
        }
        self.read(&Form::Text(example), |text| Ok(text.to_owned()))
    }

    /// Reads a list, each item by itself; those that are right are kept.
    pub fn items<T>(
        mut self,
        example: &str,
        one: OneItem,
        read: impl Fn(Scalar<'_, '_>) -> Option<T>,
    ) -> Option<Vec<Spanned<T>>> {
        let nodes: Vec<_> = match self.node.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            DeValue::String(_) if one == OneItem::Plain => vec![self.node],
            other => {
                let wanted = match one {
                    OneItem::InList | OneItem::Table => "a list",
                    OneItem::Plain => "a string or a list",
                };
                let raw = self.raw();
                let alone = one != OneItem::Table
                    && (other.is_str() || other.is_integer())
                    && !raw.contains('\n')
                    && redacted(raw) == raw;
                self.mistyped(wanted, format!("a list such as `{example}`"))
                    .maybe_hint(alone.then(|| format!("did you mean `[{raw}]`?")));
                return None;
            }
        };
        let items = nodes.into_iter().filter_map(|node| {
            let value = read(self.part(format!("an item of {}", self.subject), node))?;
            let span = node.span();
            Some(Spanned { value, span })
        });
        Some(items.collect())
    }

    /// Reads a table of NAME = "value", in the file's order; both parse themselves.
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
                        .hint("names that differ only in case are one");
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

    /// Reads a table whose keys are free, in the file's order; `quoted` is how messages call a key.
    pub fn entries<V>(
        mut self,
        example: &str,
        quoted: impl Fn(&str) -> String,
        read: impl Fn(Scalar<'_, '_>) -> Option<V>,
    ) -> Option<Vec<(Spanned<String>, Spanned<V>)>> {
        let DeValue::Table(entries) = self.node.get_ref() else {
            self.mistyped("a table", format!("`{example}`"));
            return None;
        };
        let mut all = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            let (value, span) = (key.get_ref().as_ref().to_owned(), key.span());
            let is_dotted = self
                .source
                .text
                .get(node.span())
                .is_some_and(|raw| !raw.starts_with(['{', '[']));
            if node.get_ref().is_table() && is_dotted {
                let message = format!(
                    "the key that begins with `{}` has dots but no quotes",
                    quoted(&value)
                );
                (self.report.mistake(&span, message, "a pattern in quotes"))
                    .hint("write `\"10.0.0.1\" = …`");
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

    fn part(&mut self, subject: String, node: &'t toml::Spanned<DeValue<'t>>) -> Scalar<'t, '_> {
        Scalar {
            subject,
            node,
            source: self.source,
            report: self.report,
        }
    }

    /// Says that it has another type than the `wanted` one.
    pub fn mistyped(&mut self, wanted: &str, expected: String) -> &mut Mistake {
        let is = type_name(self.node.get_ref());
        let message = format!("{} must be {wanted}, not {is}", self.subject);
        (self.report).mistake(&self.node.span(), message, expected)
    }

    /// Returns the value as the file writes it.
    fn raw(&self) -> &'t str {
        self.source.text.get(self.span()).unwrap_or_default()
    }

    /// Says of a value that is taken as it stands that it looks like a variable, without the value.
    fn warn_other_variable<T>(
        &mut self,
        form: &Form,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) {
        if let DeValue::String(written) = self.node.get_ref()
            && is_other_variable(form, written)
            && parse(written).is_ok()
        {
            self.report.warning(format!(
                "{}: its value looks like a variable, and is used as it stands: {}",
                self.subject,
                other_variables::HINT
            ));
        }
    }

    fn expand(&mut self, written: &'t Cow<'t, str>) -> Option<Cow<'t, str>> {
        let mut padded = Vec::new();
        let expanded = expand(written, self.source.env, &mut padded);
        for variable in padded {
            self.report.warning(format!(
                "{}: the value of `{variable}` begins or ends with white space, which is part of it",
                self.subject
            ));
        }
        let undefined = match expanded {
            Ok(text) => return Some(text),
            Err(undefined) => undefined,
        };
        let span = self.span();
        for (variable, wrong) in undefined {
            // The place is the variable's own unless the string spells it with escapes.
            let span = match self.raw().find(variable) {
                Some(at) => span.start + at..span.start + at + variable.len(),
                None => span.clone(),
            };
            say(self.report, wrong, variable, span);
        }
        None
    }

    /// Says what is wrong of what the file has, never of what a variable stands for.
    fn checked<T>(
        &mut self,
        written: &str,
        text: &str,
        parsed: Result<T, ValueError>,
    ) -> Option<T> {
        let mut wrong = match parsed {
            Ok(value) => return Some(value),
            Err(wrong) => wrong,
        };
        if wrong.subject.is_none() && written != text && has_variable(written) {
            wrong.hint = Some("the values of variables are not shown".to_owned());
        }
        say(self.report, wrong, written, self.span());
        None
    }
}

/// Names a value's type as people do.
fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn is_other_variable(form: &Form, text: &str) -> bool {
    other_variables::has_one(text, matches!(form, Form::Secret(_)))
}

fn has_variable(text: &str) -> bool {
    text.contains("${")
}

/// Returns the digits of an integer in base ten.
fn decimal(integer: &DeInteger<'_>) -> String {
    let number = u64::from_str_radix(integer.as_str(), integer.radix());
    number.map_or_else(|_| integer.to_string(), |number| number.to_string())
}
