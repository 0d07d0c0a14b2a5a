//! The RateLimit fields of an answer, parsed as structured fields (RFC 9651).

use sfv::{BareItem, List, ListEntry, Parser};

use super::Answer;

/// The item of a quota: its name and its parameters, in order.
pub type Item = (String, Vec<(String, i64)>);

/// Returns the items of `RateLimit`.
#[track_caller]
pub fn state(answer: &Answer) -> Vec<Item> {
    items(answer, "ratelimit")
}

/// Returns the items of `RateLimit-Policy`.
#[track_caller]
pub fn policy(answer: &Answer) -> Vec<Item> {
    items(answer, "ratelimit-policy")
}

/// Builds an item, for comparison with a parsed one.
pub fn item(name: &str, parameters: &[(&str, i64)]) -> Item {
    let parameters = parameters.iter().map(|&(key, x)| (key.to_owned(), x));
    (name.to_owned(), parameters.collect())
}

/// Returns the remaining units of the quota `name`.
#[track_caller]
pub fn remaining(answer: &Answer, name: &str) -> i64 {
    let items = state(answer);
    let found = items.iter().find(|(key, _)| key == name);
    let (_, parameters) =
        found.unwrap_or_else(|| panic!("no RateLimit item {name} in {answer:#?}"));
    let r = parameters.iter().find(|(key, _)| key == "r");
    r.expect("an item says what is left").1
}

#[track_caller]
fn items(answer: &Answer, name: &str) -> Vec<Item> {
    let values = answer.head.fields(name);
    if values.is_empty() {
        return Vec::new();
    }
    let joined = values.join(", ");
    let list = Parser::new(&joined).parse::<List>();
    let list = list.unwrap_or_else(|error| panic!("{name}: {joined:?}: {error}"));
    list.iter().map(read).collect()
}

#[track_caller]
fn read(entry: &ListEntry) -> Item {
    let ListEntry::Item(item) = entry else {
        panic!("an inner list among RateLimit items: {entry:?}");
    };
    let BareItem::String(name) = &item.bare_item else {
        panic!("a RateLimit item whose name is no string: {entry:?}");
    };
    let parameters = item.params.iter().map(|(key, value)| {
        let BareItem::Integer(number) = value else {
            panic!("a RateLimit parameter that is no integer: {entry:?}");
        };
        (key.as_str().to_owned(), i64::from(*number))
    });
    (name.as_str().to_owned(), parameters.collect())
}
