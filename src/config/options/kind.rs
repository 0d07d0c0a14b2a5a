//! Kinds of values in the file: how they are read and spelled, and their defaults.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;

use super::about::{KeyDefault, ValueShape};
use crate::config::display;
use crate::config::file::Spanned;
use crate::config::read::{Form, OneItem, Scalar};
use crate::config::value::{self, ValueError, bytes_text};

/// How the value of a key is read and spelled, and its default.
pub struct ValueSpec<V> {
    /// Default; `None` if the file must give a value.
    pub(super) default: Option<V>,
    /// Example of a value, in TOML.
    pub(super) example: String,
    /// Smallest and largest value, as text, if it has bounds.
    pub(super) bounds: Option<[String; 2]>,
    /// Shape of the value in TOML.
    pub(super) shape: ValueShape,
    /// What it means that there is no value, if that is the default.
    nothing: Option<&'static str>,
    read: Read<V>,
    spell: Spell<V>,
}

type Read<V> = Box<dyn Fn(Scalar<'_, '_>) -> Option<V> + Send + Sync>;
type Spell<V> = Box<dyn Fn(&V) -> String + Send + Sync>;

impl<V: PartialEq + 'static> ValueSpec<V> {
    pub(super) fn new(
        example: &str,
        shape: ValueShape,
        read: impl Fn(Scalar<'_, '_>) -> Option<V> + Send + Sync + 'static,
        spell: impl Fn(&V) -> String + Send + Sync + 'static,
    ) -> Self {
        Self {
            default: None,
            example: example.to_owned(),
            bounds: None,
            shape,
            nothing: None,
            read: Box::new(read),
            spell: Box::new(spell),
        }
    }

    /// Sets the default.
    pub(super) fn or(mut self, default: V) -> Self {
        self.default = Some(default);
        self
    }

    /// Lets the value be left out; `spelled` says what that means.
    pub(super) fn or_none(self, spelled: &'static str) -> ValueSpec<Option<V>> {
        let (read, spell) = (self.read, self.spell);
        ValueSpec {
            default: Some(None),
            example: self.example,
            bounds: self.bounds,
            shape: self.shape,
            nothing: Some(spelled),
            read: Box::new(move |scalar| read(scalar).map(Some)),
            spell: Box::new(move |value| match value {
                Some(value) => spell(value),
                None => spelled.to_owned(),
            }),
        }
    }

    /// Keeps the place of the value with it.
    pub(super) fn spanned(self) -> ValueSpec<Spanned<V>> {
        let (read, spell) = (self.read, self.spell);
        let read = move |scalar: Scalar<'_, '_>| {
            let span = scalar.span();
            read(scalar).map(|value| Spanned { value, span })
        };
        let spell = move |at: &Spanned<V>| spell(&at.value);
        ValueSpec::new(&self.example, self.shape, read, spell)
    }

    pub(super) fn within(mut self, [least, most]: [String; 2]) -> Self {
        self.bounds = Some([least, most]);
        self
    }

    /// Sets the regular expression that the string matches, if it has no variables.
    pub(super) fn matching(mut self, pattern: impl Into<String>) -> Self {
        if let ValueShape::Text(known) | ValueShape::NumberOrText(known) = &mut self.shape {
            *known = Some(pattern.into());
        }
        self
    }

    /// Returns what applies if the value is left out; `None` if it must not be.
    pub(super) fn stands_for(&self) -> Option<KeyDefault> {
        let default = self.default.as_ref()?;
        Some(match self.nothing {
            Some(nothing) => KeyDefault::Nothing(nothing),
            None => KeyDefault::Value((self.spell)(default)),
        })
    }

    pub(super) fn read(&self, scalar: Scalar<'_, '_>) -> Option<V> {
        (self.read)(scalar)
    }

    /// Returns a value in the file's words; of a secret only that there is one.
    pub(super) fn spell(&self, value: &V) -> String {
        (self.spell)(value)
    }

    /// Says how two values differ, in the file's words; of secrets only that they do.
    pub(super) fn change(&self, old: &V, new: &V) -> String {
        difference(&(self.spell)(old), &(self.spell)(new))
    }
}

fn difference(was: &str, is: &str) -> String {
    match (was, is) {
        _ if was == is => "changed".to_owned(),
        (_, SECRET) => "set".to_owned(),
        (SECRET, _) => "removed".to_owned(),
        _ => format!("{was} → {is}"),
    }
}

/// A string that `parse` parses; `example` is one.
pub(super) fn text<V: PartialEq + 'static>(
    example: &'static str,
    parse: impl Fn(&str) -> Result<V, ValueError> + Send + Sync + 'static,
    spell: impl Fn(&V) -> String + Send + Sync + 'static,
) -> ValueSpec<V> {
    scalar(Form::Text(example), parse, spell)
}

/// A value of this form that `parse` parses.
pub(super) fn scalar<V: PartialEq + 'static>(
    form: Form,
    parse: impl Fn(&str) -> Result<V, ValueError> + Send + Sync + 'static,
    spell: impl Fn(&V) -> String + Send + Sync + 'static,
) -> ValueSpec<V> {
    let (example, shape) = (form.example(), shape(&form));
    let read = move |scalar: Scalar<'_, '_>| scalar.read(&form, &parse);
    ValueSpec::new(&example, shape, read, spell)
}

/// A string that a later stage checks.
pub(super) fn free_text(example: &'static str) -> ValueSpec<String> {
    let quoted = format!("\"{example}\"");
    ValueSpec::new(
        &quoted,
        ValueShape::Text(None),
        move |scalar| scalar.free_text(example),
        String::clone,
    )
}

/// One of `words`.
pub(super) fn word<V: Clone + PartialEq + Send + Sync + 'static>(
    words: &'static [(&'static str, V)],
) -> ValueSpec<V> {
    let parse = |text: &str| value::word(text, words);
    let spell = |value: &V| display::word(words, value).to_owned();
    let mut kind = text(words[0].0, parse, spell);
    kind.shape = ValueShape::Word(words.iter().map(|(word, _)| *word).collect());
    kind
}

/// `true` or `false`.
pub(super) fn boolean() -> ValueSpec<bool> {
    let parse = |text: &str| {
        let wrong = |_| ValueError::new("is neither `true` nor `false`", "`true` or `false`");
        text.trim().parse().map_err(wrong)
    };
    scalar(Form::Boolean, parse, ToString::to_string)
}

/// A whole number within `range`.
pub(super) fn number<N: TryFrom<u64> + Display + PartialEq + 'static>(
    range: RangeInclusive<u64>,
) -> ValueSpec<N> {
    let bounds = [range.start(), range.end()].map(ToString::to_string);
    let expected = format!("a number from {} to {}", bounds[0], bounds[1]);
    let form = Form::Number {
        expected: expected.clone(),
    };
    let parse = move |text: &str| {
        let digits = text.trim();
        let number = digits.parse().ok().filter(|number| range.contains(number));
        let is_digit = |c: char| c.is_ascii_digit();
        let problem = match digits.trim_start_matches('-').trim_matches(is_digit) {
            "" if !digits.is_empty() => "is out of range",
            _ => "is not a number",
        };
        let number = number.and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| ValueError::new(problem, expected.as_str()))
    };
    scalar(form, parse, ToString::to_string).within(bounds)
}

/// A string that `parse` parses, or a number that stands for the string of its digits.
pub(super) fn number_or_text<V: PartialEq + 'static>(
    example: &'static str,
    parse: impl Fn(&str) -> Result<V, ValueError> + Send + Sync + 'static,
    spell: impl Fn(&V) -> String + Send + Sync + 'static,
) -> ValueSpec<V> {
    scalar(Form::NumberOrText(example), parse, spell)
}

/// A number with or without decimals that `parse` parses; `expected` says which ones are allowed.
pub(super) fn decimal<V: PartialEq + Display + 'static>(
    expected: &'static str,
    parse: impl Fn(&str) -> Result<V, ValueError> + Send + Sync + 'static,
) -> ValueSpec<V> {
    scalar(Form::Fraction(expected), parse, ToString::to_string)
}

/// A share of a whole: a fraction above 0 and up to 1.
pub(super) fn share() -> ValueSpec<f64> {
    let bounds = ["above 0", "1"].map(str::to_owned);
    decimal("a number above 0 and up to 1", value::ratio).within(bounds)
}

/// A share of a whole that may be 0: a fraction from 0 to 1.
pub(super) fn share_from_0() -> ValueSpec<f64> {
    let bounds = ["0", "1"].map(str::to_owned);
    decimal("a number from 0 to 1", value::ratio_from_0).within(bounds)
}

/// A duration within `range`.
pub(super) fn duration(range: RangeInclusive<Duration>) -> ValueSpec<Duration> {
    let spell = |duration: &Duration| display::duration(*duration);
    let [least, most] = [range.start(), range.end()].map(|value| display::duration(*value));
    let takes_none = range.start().is_zero();
    let parse = move |text: &str| match value::duration(text)? {
        Duration::ZERO if !takes_none => {
            let expected = format!("a duration from {least} to {most}");
            let wrong = ValueError::new("is out of range", expected);
            Err(wrong.hint(format!(
                "0 cannot mean no limit here: the longest is `{most}`"
            )))
        }
        duration => Ok(duration),
    };
    bounded(Form::Text("30s"), "duration", range, parse, spell).matching(value::duration_pattern())
}

/// A duration within `range`, or `off`.
pub(super) fn duration_or_off(range: RangeInclusive<Duration>) -> ValueSpec<Option<Duration>> {
    let bounds = [range.start(), range.end()].map(|value| display::duration(*value));
    let expected = format!("a duration from {} to {}, or `off`", bounds[0], bounds[1]);
    let parse = move |text: &str| match text {
        "off" => Ok(None),
        _ => match value::duration(text) {
            Ok(duration) if range.contains(&duration) => Ok(Some(duration)),
            Ok(_) => Err(ValueError::new("is out of range", expected.as_str())),
            Err(wrong) => Err(ValueError {
                expected: expected.clone(),
                ..wrong
            }),
        },
    };
    let spell =
        |duration: &Option<Duration>| duration.map_or_else(|| "off".to_owned(), display::duration);
    let kind = scalar(Form::Text("30s"), parse, spell).within(bounds);
    kind.matching(format!("{}|^off$", value::duration_pattern()))
}

/// A size in bytes within `range`: a string, or a number of bytes.
pub(super) fn size<N>(range: RangeInclusive<N>) -> ValueSpec<N>
where
    N: Copy + PartialOrd + TryFrom<u64> + Send + Sync + 'static,
    u64: TryFrom<N>,
{
    let spell = |size: &N| u64::try_from(*size).map_or_else(|_| String::new(), bytes_text);
    let parse = |text: &str| {
        let too_large = |_| ValueError::new("is too large", "a size such as `64KiB`");
        N::try_from(value::size(text)?).map_err(too_large)
    };
    let kind = bounded(Form::NumberOrText("64KiB"), "size", range, parse, spell);
    kind.matching(value::size_pattern())
}

fn bounded<V: PartialOrd + Send + Sync + 'static>(
    form: Form,
    noun: &str,
    range: RangeInclusive<V>,
    parse: impl Fn(&str) -> Result<V, ValueError> + Send + Sync + 'static,
    spell: impl Fn(&V) -> String + Send + Sync + 'static,
) -> ValueSpec<V> {
    let bounds = [range.start(), range.end()].map(&spell);
    let expected = format!("a {noun} from {} to {}", bounds[0], bounds[1]);
    let parse = move |text: &str| match parse(text)? {
        value if range.contains(&value) => Ok(value),
        _ => Err(ValueError::new("is out of range", expected.as_str())),
    };
    scalar(form, parse, spell).within(bounds)
}

/// A list of what `one` reads; the default is `[]`.
pub(super) fn list<V: PartialEq + 'static>(one: ValueSpec<V>) -> ValueSpec<Vec<Spanned<V>>> {
    items(one, OneItem::InList).or(Vec::new())
}

/// A list of what `one` reads, or a single item without a list; there is no default.
pub(super) fn list_or_one<V: PartialEq + 'static>(one: ValueSpec<V>) -> ValueSpec<Vec<Spanned<V>>> {
    items(one, OneItem::Plain)
}

/// A list of tables that `one` reads; there is no default.
pub(super) fn tables<V: PartialEq + 'static>(one: ValueSpec<V>) -> ValueSpec<Vec<Spanned<V>>> {
    items(one, OneItem::Table)
}

fn items<V: PartialEq + 'static>(one: ValueSpec<V>, how: OneItem) -> ValueSpec<Vec<Spanned<V>>> {
    let list = ValueShape::List(Box::new(one.shape.clone()));
    let shape = match how {
        OneItem::InList => ValueShape::OneOf(vec![list, ValueShape::ListVariable]),
        OneItem::Plain => ValueShape::OneOf(vec![one.shape.clone(), list]),
        OneItem::Table => list,
    };
    let (read, spell) = (one.read, one.spell);
    let example = format!("[{}]", one.example);
    let such_as = example.clone();
    let read = move |scalar: Scalar<'_, '_>| scalar.items(&such_as, how, &read);
    let spell = move |item: &Spanned<V>| spell(&item.value);
    ValueSpec::new(&example, shape, read, move |items| {
        display::list(items.iter().map(&spell))
    })
}

impl<V: PartialEq + 'static> ValueSpec<Vec<Spanned<V>>> {
    /// Drops the places of the items; `make` turns these into the value.
    pub(super) fn plain<L: PartialEq + 'static>(
        self,
        make: fn(Vec<V>) -> L,
        spell: impl Fn(&L) -> String + Send + Sync + 'static,
    ) -> ValueSpec<L> {
        let read = self.read;
        let read = move |scalar: Scalar<'_, '_>| {
            let items = read(scalar)?;
            Some(make(items.into_iter().map(|item| item.value).collect()))
        };
        ValueSpec::new(&self.example, self.shape, read, spell)
    }
}

/// Returns the shape of values that are written in this form.
pub(super) fn shape(form: &Form) -> ValueShape {
    match form {
        Form::Text(_) | Form::File(_) | Form::Secret(_) => ValueShape::Text(None),
        Form::NumberOrText(_) => ValueShape::NumberOrText(None),
        Form::Number { .. } => ValueShape::Integer,
        Form::Fraction(_) => ValueShape::Number,
        Form::Boolean => ValueShape::Boolean,
    }
}

/// A table of header fields, such as `example`; `name` parses their names, and `value` their values.
pub(super) fn fields<V: PartialEq + 'static>(
    example: &'static str,
    name: fn(&str) -> Result<HeaderName, ValueError>,
    value: fn(&str) -> Result<V, ValueError>,
) -> ValueSpec<Vec<(HeaderName, V)>> {
    ValueSpec::new(
        example,
        ValueShape::FreeTable(Box::new(ValueShape::Text(None))),
        move |scalar| scalar.pairs(example, name, value),
        // A value may be a secret, so only names are shown.
        |fields: &Vec<_>| display::list(fields.iter().map(|(name, _)| name)),
    )
    .or(Vec::new())
}

/// How every secret is spelled.
pub(super) const SECRET: &str = "***";
