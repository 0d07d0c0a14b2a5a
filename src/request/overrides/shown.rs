//! How an override's pattern is shown to people and upstreams.
//!
//! Globs, networks and tiers are shown in clear. A plain value names a client, and is shown as a
//! client is.

use std::fmt::{self, Display, Write as _};

use super::super::partition::first_present;
use super::super::redacted::{Redacted, write_items};
use super::pattern::Pattern;

/// How each item of a pattern is shown; only for patterns with an item that is not shown as the client's value.
pub(super) type ShownPattern = Box<[ShownPart]>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownPart {
    /// The item is not shown, because the pattern asks nothing of it.
    Nothing,
    /// The item is shown as the client's value.
    Client,
    /// The item is shown in clear, as this text.
    Clear(Box<str>),
}

/// Shows the pattern that matches this client: each item as `shown` says, or as the client's value if it is `None`.
pub(super) fn show<'r>(shown: Option<&'r ShownPattern>, client: Redacted<'r>) -> impl Display + 'r {
    fmt::from_fn(move |f| {
        let (partition, facts) = (client.partition, client.facts);
        let is_nothing = |part: &ShownPart| *part == ShownPart::Nothing;
        if shown.is_some_and(|shown| shown.iter().all(is_nothing)) {
            return f.write_char('*');
        }
        let items = partition.0.iter().enumerate().filter_map(|(at, choice)| {
            let how = shown.map_or(&ShownPart::Client, |shown| &shown[at]);
            let (part, value) = first_present(choice, facts)?;
            (*how != ShownPart::Nothing).then_some((part, (how, value)))
        });
        write_items(f, partition, items, |f, part, (how, value)| match how {
            ShownPart::Clear(text) => f.write_str(text),
            _ => client.write_value(f, part, &value),
        })
    })
}

/// Returns how a pattern is shown; none if every item is shown as the client's value.
pub(super) fn of(pattern: &Pattern) -> Option<ShownPattern> {
    let how = pattern.iter().map(|part| match part {
        None => ShownPart::Nothing,
        Some(part) => match &part.shown {
            None => ShownPart::Client,
            Some(text) => ShownPart::Clear(text.clone()),
        },
    });
    let how: ShownPattern = how.collect();
    let is_client = |part: &ShownPart| *part == ShownPart::Client;
    (!how.iter().all(is_client)).then_some(how)
}
