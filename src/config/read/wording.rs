//! The words for mistakes that more than one kind of value can have.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::keys::{Keys, home_of};
use crate::config::report::Mistake;
use crate::config::value::{Wrong, did_you_mean, one_of};

/// Says what is wrong with a text of the file that holds no variables.
pub(super) fn said_of(wrong: Wrong, text: &str, span: Range<usize>) -> Mistake {
    let subject = match wrong.subject {
        Some(subject) => subject.to_owned(),
        None if text.chars().count() > QUOTED_LEN_MAX => {
            let start: String = text.chars().take(QUOTED_LEN_MAX).collect();
            format!("`{start}…`")
        }
        None => format!("`{text}`"),
    };
    Mistake::at(span, format!("{subject} {}", wrong.problem))
        .expected(wrong.expected)
        .maybe_hint(wrong.hint)
}

/// Says that a value has another type than the `wanted` one.
pub(super) fn mistyped(subject: &str, wanted: &str, node: &Spanned<DeValue<'_>>) -> Mistake {
    let is = type_name(node.get_ref());
    Mistake::at(node.span(), format!("{subject} must be {wanted}, not {is}"))
}

/// Says what to do about a key that a table does not have.
pub(super) fn unknown(keys: &Keys, key: &str, span: Range<usize>) -> Mistake {
    let hint = home_of(keys, key)
        .or_else(|| did_you_mean(key, keys.all()))
        .unwrap_or_else(|| {
            format!(
                "keys there are {}",
                one_of(keys.working).replace(" or ", " and ")
            )
        });
    Mistake::at(span, format!("unknown key `{key}`"))
        .expected(format!("a key of {}", code(keys.title)))
        .hint(hint)
}

/// Says that a key stands where names do: `[listeners]` for `[listeners.NAME]`.
pub(super) fn nameless(keys: &Keys, key: &str, span: Range<usize>) -> Mistake {
    let is_key = keys.all().any(|known| known == key);
    let hint = is_key.then(|| {
        format!(
            "`{key}` belongs in {}, with a name of your choice",
            code(keys.title)
        )
    });
    Mistake::at(span, format!("`{key}` must be a table"))
        .expected(code(keys.title))
        .maybe_hint(hint)
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

fn code(title: &str) -> String {
    if title.starts_with('[') {
        format!("`{title}`")
    } else {
        title.to_owned()
    }
}

/// Most characters of a text that a message repeats.
const QUOTED_LEN_MAX: usize = 60;
