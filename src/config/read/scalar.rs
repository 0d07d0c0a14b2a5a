//! One value of the parsed file on its way to what its key wants.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use super::table::Source;
use super::variables::expand;
use super::wording::{mistyped, said_of};
use crate::config::file::At;
use crate::config::report::{Mistake, Report};
use crate::config::value::{Wrong, ratio};

/// A value that is to be one string, number or boolean.
pub(super) struct Scalar<'t, 'r> {
    /// What messages call it: `` `quota` ``, or an item of it.
    pub(super) subject: String,
    pub(super) node: &'t Spanned<DeValue<'t>>,
    pub(super) source: Source<'t>,
    pub(super) report: &'r mut Report,
}

impl<'t> Scalar<'t, '_> {
    /// Reads a string that parses itself; `such_as` is an example.
    pub(super) fn text<T>(
        mut self,
        such_as: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<At<T>> {
        let DeValue::String(written) = self.node.get_ref() else {
            let hint = self.unquoted().and_then(|text| match parse(text) {
                Ok(_) => Some(format!("put it in quotes: `\"{text}\"`")),
                Err(wrong) => wrong.hint,
            });
            self.mistyped(
                "a string",
                &format!("a string such as `\"{such_as}\"`"),
                hint,
            );
            return None;
        };
        let text = self.expand(written)?;
        self.checked(written, &text, parse(&text))
    }

    /// Reads a string that a later stage judges.
    pub(super) fn free_text(mut self, such_as: &str) -> Option<At<String>> {
        if let DeValue::String(written) = self.node.get_ref()
            && let Cow::Owned(text) = self.expand(written)?
        {
            self.report.veil(self.node.span());
            return self.checked(written, written, Ok(text));
        }
        self.text(such_as, |text| Ok(text.to_owned()))
    }

    /// Reads a whole number within `range`.
    pub(super) fn number<N: TryFrom<u64>>(mut self, range: RangeInclusive<u64>) -> Option<At<N>> {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let within = |number: Option<u64>| {
            number
                .filter(|number| range.contains(number))
                .and_then(|number| N::try_from(number).ok())
                .ok_or_else(|| Wrong::new("is out of range", expected.as_str()))
        };
        match self.node.get_ref() {
            DeValue::Integer(integer) => {
                let raw = self.raw();
                self.checked(raw, raw, within(unsigned(integer)))
            }
            DeValue::String(written) if has_variable(written) => {
                let text = self.expand(written)?;
                let number = match text.trim().parse() {
                    Ok(number) => within(Some(number)),
                    Err(_) => Err(Wrong::new("is not a number", expected.as_str())),
                };
                self.checked(written, &text, number)
            }
            other => {
                let is_number = other
                    .as_str()
                    .is_some_and(|text| text.parse::<u64>().is_ok());
                let hint = is_number.then(|| "leave the quotes out".to_owned());
                self.mistyped("a number", &expected, hint);
                None
            }
        }
    }

    /// Reads a string that parses itself, or an integer that stands for the string of its digits.
    pub(super) fn integer_or_text<T>(
        mut self,
        such_as: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Option<At<T>> {
        let DeValue::Integer(integer) = self.node.get_ref() else {
            return self.text(such_as, parse);
        };
        let digits = unsigned(integer).map_or_else(|| integer.to_string(), |n| n.to_string());
        self.checked(self.raw(), &digits, parse(&digits))
    }

    /// Reads a share of a whole.
    pub(super) fn ratio(mut self) -> Option<f64> {
        match self.node.get_ref() {
            DeValue::Float(_) | DeValue::Integer(_) => {
                let raw = self.raw();
                self.checked(raw, raw, ratio(&raw.replace('_', "")))
            }
            DeValue::String(written) if has_variable(written) => {
                let text = self.expand(written)?;
                self.checked(written, &text, ratio(&text))
            }
            other => {
                let is_ratio = other.as_str().is_some_and(|text| ratio(text).is_ok());
                let hint = is_ratio.then(|| "leave the quotes out".to_owned());
                self.mistyped("a number", "a number above 0 and up to 1", hint);
                None
            }
        }
        .map(|at| at.value)
    }

    /// Reads `true` or `false`.
    pub(super) fn boolean(mut self) -> Option<bool> {
        let expected = "`true` or `false`";
        match self.node.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            DeValue::String(written) if has_variable(written) => {
                let text = self.expand(written)?;
                let value = text
                    .trim()
                    .parse()
                    .map_err(|_| Wrong::new("is neither `true` nor `false`", expected));
                self.checked(written, &text, value).map(|at| at.value)
            }
            other => {
                let is_bool = matches!(other.as_str(), Some("true" | "false"));
                let hint = is_bool.then(|| "leave the quotes out".to_owned());
                self.mistyped("`true` or `false`", expected, hint);
                None
            }
        }
    }

    /// Returns the value as the file writes it.
    pub(super) fn raw(&self) -> &'t str {
        self.source.text.get(self.node.span()).unwrap_or_default()
    }

    /// Returns the file's text of a value that may only lack its quotes.
    fn unquoted(&self) -> Option<&'t str> {
        let is_plain = !matches!(self.node.get_ref(), DeValue::Array(_) | DeValue::Table(_));
        is_plain.then(|| self.raw())
    }

    fn expand(&mut self, written: &'t Cow<'t, str>) -> Option<Cow<'t, str>> {
        let undefined = match expand(written, self.source.env) {
            Ok(text) => return Some(text),
            Err(undefined) => undefined,
        };
        let span = self.node.span();
        for variable in undefined {
            // The place is the variable's own unless the string spells it with escapes.
            let at = self.raw().find(&variable.written);
            let span = match at {
                Some(at) => span.start + at..span.start + at + variable.written.len(),
                None => span.clone(),
            };
            let mistake = Mistake::at(span, variable.message)
                .expected(variable.expected)
                .maybe_hint(variable.hint);
            self.report.add(mistake);
        }
        None
    }

    /// Says what is wrong of what the file has, never of what a variable stands for.
    fn checked<T>(&mut self, written: &str, text: &str, parsed: Result<T, Wrong>) -> Option<At<T>> {
        let span = self.node.span();
        match parsed {
            Ok(value) => Some(At { value, span }),
            Err(mut wrong) => {
                if wrong.subject.is_none() && written != text && has_variable(written) {
                    wrong.hint = Some("what a variable stands for is not shown".to_owned());
                }
                self.report.add(said_of(wrong, written, span));
                None
            }
        }
    }

    fn mistyped(&mut self, wanted: &str, expected: &str, hint: Option<String>) {
        let mistake = mistyped(&self.subject, wanted, self.node);
        self.report.add(mistake.expected(expected).maybe_hint(hint));
    }
}

fn has_variable(text: &str) -> bool {
    text.contains("${")
}

fn unsigned(integer: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}
