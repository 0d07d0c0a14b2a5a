//! Turns a value of the parsed file into what its key takes.

use std::borrow::Cow;
use std::ops::Range;

use toml::de::{DeInteger, DeValue};

use super::form::Form;
use super::other_variables;
use super::say::say;
use super::source::FileSource;
use super::variables::{Template, Undefined, expand, secret_files};
use crate::config::report::{Mistake, Report};
use crate::config::secrets::{redacted, without_defaults};
use crate::config::text::MissingValues;
use crate::config::value::ValueError;

/// A value of the parsed file, before it is read.
pub struct Scalar<'t, 'r> {
    /// Name of the value in messages: `` `quota` ``, or an item of it.
    pub(super) subject: String,
    pub(super) node: &'t toml::Spanned<DeValue<'t>>,
    pub(super) source: FileSource<'t>,
    pub(super) report: &'r mut Report,
    /// Where the value comes from, if it is an item of a list that a variable stands for.
    pub(super) of_list: Option<ListItem<'t>>,
}

/// An item of the list that a variable stands for.
#[derive(Clone, Copy)]
pub(super) struct ListItem<'t> {
    /// The variable, as written in the file.
    pub(super) written: &'t str,
    /// Number of the item, from 1; `None` if it is the only one.
    pub(super) number: Option<usize>,
}

/// Parses a text and keeps the value. It is not generic, so that the code that reads values is compiled once, and not
/// for each type of value.
type Parse<'p> = &'p mut dyn FnMut(&str) -> Result<(), ValueError>;

/// Returns the value that was parsed last, if `take` says that it is right.
fn parsed<T>(
    parse: impl Fn(&str) -> Result<T, ValueError>,
    take: impl FnOnce(Parse<'_>) -> bool,
) -> Option<T> {
    let mut value = None;
    let is_right = take(&mut |text| {
        value = Some(parse(text)?);
        Ok(())
    });
    value.filter(|_| is_right)
}

/// How a list with a single item may be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OneItem {
    /// As a list.
    InList,
    /// As a list, or as the item alone.
    Plain,
    /// As a list; the item is a table.
    Table,
}

impl<'t> Scalar<'t, '_> {
    /// Returns the value's place in the text.
    pub fn span(&self) -> Range<usize> {
        self.node.span()
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.node.get_ref(), DeValue::Array(_))
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        self.node.get_ref().is_table()
    }

    /// Reads the value in this form; `parse` parses its text.
    pub fn read<T>(self, form: &Form, parse: impl Fn(&str) -> Result<T, ValueError>) -> Option<T> {
        parsed(parse, |parse| self.take(form, parse))
    }

    /// Reads the value as `read` does, but without a warning if it looks like a variable of another language.
    pub(super) fn read_as_it_stands<T>(
        self,
        form: &Form,
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        parsed(parse, |parse| self.take_as_it_stands(form, parse))
    }

    /// Reads the value, which `parse` keeps; returns whether it is right.
    fn take(mut self, form: &Form, parse: Parse<'_>) -> bool {
        self.warn_other_variable(form, parse);
        self.take_as_it_stands(form, parse)
    }

    fn take_as_it_stands(mut self, form: &Form, parse: Parse<'_>) -> bool {
        let raw = self.raw();
        let is_text = matches!(
            form,
            Form::Text(_) | Form::File(_) | Form::Secret(_) | Form::NumberOrText(_)
        );
        match (form, self.node.get_ref()) {
            (_, DeValue::String(item)) if self.of_list.is_some() => {
                self.note_file(form, item);
                self.checked(item, item, parse(item))
            }
            (_, DeValue::String(written)) if is_text || has_variable(written) => {
                let Some(text) = self.expand(written, matches!(form, Form::Secret(_))) else {
                    return false;
                };
                self.note_file(form, &text);
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
                        Ok(()) if matches!(other, DeValue::Boolean(_)) => None,
                        Ok(()) => Some(format!("put it in quotes: `\"{raw}\"`")),
                        Err(wrong) => wrong.hint,
                    },
                    _ => None,
                };
                let (wanted, expected) = form.wanted();
                self.mistyped(wanted, expected).maybe_hint(hint);
                false
            }
        }
    }

    /// Reads a string; if it has `${file:…}` variables, `remember` adds to the value how to read them again.
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

    /// Reads a string that a later stage checks.
    pub fn free_text(self, example: &'static str) -> Option<String> {
        if let DeValue::String(written) = self.node.get_ref()
            && (self.of_list.is_some() || has_variable(written))
        {
            self.report.redact(self.span());
        }
        self.read(&Form::Text(example), |text| Ok(text.to_owned()))
    }

    pub(super) fn part(
        &mut self,
        subject: String,
        node: &'t toml::Spanned<DeValue<'t>>,
    ) -> Scalar<'t, '_> {
        Scalar {
            subject,
            node,
            source: self.source,
            report: self.report,
            of_list: None,
        }
    }

    /// Reports that the value does not have the `wanted` type.
    pub fn mistyped(&mut self, wanted: &str, expected: String) -> &mut Mistake {
        let is = type_name(self.node.get_ref());
        let message = format!("{} must be {wanted}, not {is}", self.subject);
        (self.report).mistake(&self.node.span(), message, expected)
    }

    /// Returns the value as written in the file.
    pub(super) fn raw(&self) -> &'t str {
        self.source.text.get(self.span()).unwrap_or_default()
    }

    /// Warns, without showing the value, if it looks like a variable of another language but is valid as it is.
    fn warn_other_variable(&mut self, form: &Form, parse: Parse<'_>) {
        if let DeValue::String(written) = self.node.get_ref()
            && self.of_list.is_none()
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

    /// Notes the file that the value names.
    fn note_file(&mut self, form: &Form, text: &str) {
        if matches!(form, Form::File(_)) {
            self.report.paths_mut().add_file(text);
        }
    }

    /// Replaces the variables of a string. Returns `None` if one cannot be expanded, after that was reported or, if
    /// missing values are assumed to exist, noted; a secret gets a placeholder then.
    fn expand(&mut self, written: &'t Cow<'t, str>, is_secret: bool) -> Option<Cow<'t, str>> {
        let mut padded = Vec::new();
        self.note_secret_files(written);
        let expanded = expand(written, self.source.env, &mut padded);
        for variable in padded {
            self.report.warning(format!(
                "{}: the value of `{}` begins or ends with white space, which is part of it",
                self.subject,
                without_defaults(variable)
            ));
        }
        match expanded {
            Ok(text) => Some(text),
            Err(undefined) if is_secret && self.are_given(&undefined) => {
                for (variable, _) in undefined {
                    self.report.give(variable);
                }
                Some(Cow::Borrowed(GIVEN_SECRET))
            }
            Err(undefined) => {
                self.undefined(undefined);
                None
            }
        }
    }

    /// Notes the files that the variables of a string stand for.
    pub(super) fn note_secret_files(&mut self, written: &str) {
        for path in secret_files(written, self.source.env) {
            self.report.paths_mut().add_file(path);
        }
    }

    /// Reports the variables that cannot be expanded, except those that are assumed to exist.
    pub(super) fn undefined(&mut self, undefined: Vec<Undefined<'t>>) {
        let span = self.span();
        for (variable, wrong) in undefined {
            // The place is that of the variable itself, unless the string writes it with escapes.
            let at = match self.raw().find(variable) {
                Some(at) => span.start + at..span.start + at + variable.len(),
                None => span.clone(),
            };
            if self.is_given(&wrong) {
                self.report.give(variable);
                self.report.leave_out(span.clone());
            } else {
                say(self.report, wrong, &without_defaults(variable), at);
            }
        }
    }

    fn are_given(&self, undefined: &[Undefined<'_>]) -> bool {
        undefined.iter().all(|(_, wrong)| self.is_given(wrong))
    }

    /// Whether the mistake is only that something is missing, and missing values are assumed to exist.
    fn is_given(&self, wrong: &ValueError) -> bool {
        wrong.is_missing && self.source.missing == MissingValues::AreGiven
    }

    /// Returns whether a value is right. If not, reports the mistake with the value as written in the file, never with
    /// what a variable stands for.
    fn checked(&mut self, written: &str, text: &str, parsed: Result<(), ValueError>) -> bool {
        let Err(mut wrong) = parsed else {
            return true;
        };
        let written = self.of_list.map_or(written, |item| item.written);
        let shown = without_defaults(written);
        if self.is_given(&wrong) {
            self.report.give(&redacted(&shown));
            self.report.leave_out(self.span());
            return false;
        }
        if let Some(item) = self.of_list {
            self.wrong_item(item, text, wrong);
            return false;
        }
        if wrong.subject.is_none() && written != text && has_variable(written) {
            wrong.hint = Some(NOT_SHOWN.to_owned());
        }
        say(self.report, wrong, &shown, self.span());
        false
    }

    /// Reports what is wrong with an item of the list that a variable stands for, without showing the item.
    fn wrong_item(
        &mut self,
        ListItem { written, number }: ListItem<'_>,
        text: &str,
        wrong: ValueError,
    ) {
        let written = without_defaults(written);
        let item = match number {
            Some(number) => format!("item {number} of `{written}`"),
            None => format!("`{written}`"),
        };
        let (subject, hint) = match wrong.subject {
            Some(subject) => (format!("{item}: {subject}"), wrong.hint),
            None if text.starts_with(['[', '"', '\'']) => (item, Some(BARE_ITEMS.to_owned())),
            None => (item, Some(NOT_SHOWN.to_owned())),
        };
        let message = format!("{subject} {}", wrong.problem);
        (self
            .report
            .mistake(&self.node.span(), message, wrong.expected))
        .maybe_hint(hint);
    }
}

/// Returns what messages call the type of a value.
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

pub(super) fn has_variable(text: &str) -> bool {
    text.contains("${")
}

/// Returns the digits of an integer in base ten.
fn decimal(integer: &DeInteger<'_>) -> String {
    let number = u64::from_str_radix(integer.as_str(), integer.radix());
    number.map_or_else(|_| integer.to_string(), |number| number.to_string())
}

/// Placeholder for a secret that is assumed to exist; it passes every check of secrets.
const GIVEN_SECRET: &str = "a-secret-that-is-assumed-to-be-there";
/// Hint for a mistake in the value of a variable.
const NOT_SHOWN: &str = "the values of variables are not shown";
/// Hint for an item in a variable that is written as in a TOML list.
const BARE_ITEMS: &str = "in a variable, items stand without brackets and quotes: `a,b`";
