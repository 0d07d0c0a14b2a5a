//! A partition as the log and the admin port show it.
//!
//! Hosts, methods and routes are in clear, and so are addresses unless [`ClientNames::Digest`] is set. A value that may
//! be secret (of a header, or a piece of the path) is shown as its first four characters, `~`, and eight hex digits of
//! a keyed digest: enough to tell clients apart and to recognise one, not enough to pose as one. A user name with its
//! password (Basic) is shown as the digest alone. The text is printable ASCII, so it cannot break a line; a writer of
//! JSON must still escape `"` and `\` in a route's name.

use std::fmt::{self, Display, Formatter, Write};
use std::net::IpAddr;
use std::rc::Rc;

use http::header::AUTHORIZATION;

use super::credential::is_basic;
use super::partition::{Choice, Facts, Part, Partition, Value, digest, first_present, spelling};
use crate::limit::PartitionId;

/// How values of a partition that may be secret are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientNames {
    /// Their first four characters and eight hex digits of a digest; addresses are in clear.
    #[default]
    Short,
    /// Eight hex digits of the digest alone, also for addresses.
    Digest,
}

/// A request's partition, shown without secrets. Showing it allocates only if a value is respelled to be compared, such
/// as a header on several lines.
#[derive(Clone, Copy, Debug)]
pub struct Redacted<'r> {
    key: &'r [u8; 32],
    pub(super) partition: &'r Partition,
    pub(super) facts: &'r Facts<'r>,
    names: ClientNames,
    /// The partition id, if it is known and the partition has one item.
    id: Option<PartitionId>,
}

/// Shows whose quota a request spends, with digests under `key`: `203.0.113.9` or `live~1f2e3d4c`;
/// or, if the parts need their names, `header:x-api-key=live~1f2e3d4c, route=/items/{id}`.
pub fn redacted<'r>(
    key: &'r [u8; 32],
    partition: &'r Partition,
    facts: &'r Facts<'r>,
    names: ClientNames,
) -> Redacted<'r> {
    Redacted {
        key,
        partition,
        facts,
        names,
        id: None,
    }
}

/// Shows a client's address: in clear, or as its digest if only digests are shown. A client without an address came
/// over a Unix socket.
pub fn redacted_address(
    key: &[u8; 32],
    address: Option<IpAddr>,
    names: ClientNames,
) -> impl Display {
    fmt::from_fn(move |f| match (address, names) {
        (None, _) => f.write_str(NO_ADDRESS),
        (Some(address), ClientNames::Short) => write!(f, "{address}"),
        (Some(address), ClientNames::Digest) => {
            write_digest(f, key, &Part::Ip, &Value::Address(address, 128))
        }
    })
}

/// The client's address that was shown last on a connection, and how: most requests of a connection have the same one.
#[derive(Debug, Default)]
pub struct LatestAddress(Option<ShownAddress>);

#[derive(Debug)]
struct ShownAddress {
    key: [u8; 32],
    address: Option<IpAddr>,
    names: ClientNames,
    shown: Rc<str>,
}

impl LatestAddress {
    /// Does what [`redacted_address`] does, but does not format an address again that it remembers.
    pub fn redacted(
        &mut self,
        key: &[u8; 32],
        address: Option<IpAddr>,
        names: ClientNames,
    ) -> Rc<str> {
        if let Some(latest) = &self.0
            && (&latest.key, latest.address, latest.names) == (key, address, names)
        {
            return Rc::clone(&latest.shown);
        }
        let shown: Rc<str> = redacted_address(key, address, names).to_string().into();
        self.0 = Some(ShownAddress {
            key: *key,
            address,
            names,
            shown: Rc::clone(&shown),
        });
        shown
    }
}

impl Display for Redacted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let choices = &self.partition.0;
        let missing = (choices.iter()).find(|choice| first_present(choice, self.facts).is_none());
        if let Some(choice) = missing {
            return write_missing(f, choice);
        }
        if choices.is_empty() {
            return f.write_str(ALL);
        }
        let items = (choices.iter()).filter_map(|choice| first_present(choice, self.facts));
        write_items(f, self.partition, items, |f, part, value| {
            self.write_value(f, part, &value)
        })
    }
}

impl Redacted<'_> {
    /// Uses the partition id as the digest if the partition has one item, because the two are then the same.
    #[must_use]
    pub fn identified(self, id: PartitionId) -> Self {
        let id = (self.partition.0.len() == 1).then_some(id);
        Self { id, ..self }
    }

    pub(super) fn write_value(
        &self,
        f: &mut Formatter<'_>,
        part: &Part,
        value: &Value<'_>,
    ) -> fmt::Result {
        write_value(f, (self.key, self.names), part, value, self.id)
    }
}

/// Writes the items of a partition one after the other, each with its part's name if the partition has several parts.
pub(super) fn write_items<'p, V>(
    f: &mut Formatter<'_>,
    partition: &Partition,
    items: impl Iterator<Item = (&'p Part, V)>,
    write: impl Fn(&mut Formatter<'_>, &Part, V) -> fmt::Result,
) -> fmt::Result {
    let is_plain = matches!(&*partition.0, [choice] if choice.0.len() == 1);
    let mut separator = "";
    for (part, value) in items {
        f.write_str(separator)?;
        separator = ", ";
        if !is_plain {
            write_name(f, part)?;
            f.write_char('=')?;
        }
        write(f, part, value)?;
    }
    Ok(())
}

/// Writes a value in clear, redacted, or as its digest alone: `id` if that is known, or else a digest under `key`.
pub(super) fn write_value(
    f: &mut Formatter<'_>,
    (key, names): (&[u8; 32], ClientNames),
    part: &Part,
    value: &Value<'_>,
    id: Option<PartitionId>,
) -> fmt::Result {
    let digest_only = names == ClientNames::Digest;
    match (part, value) {
        (Part::Host | Part::Method | Part::Route, Value::Text(text)) => {
            return write_printable(f, text, TEXT_BYTES_MAX);
        }
        (_, Value::Address(address, prefix)) if !digest_only => {
            return match address {
                IpAddr::V4(_) if *prefix < 32 => write!(f, "{address}/{prefix}"),
                IpAddr::V6(_) if *prefix < 128 => write!(f, "{address}/{prefix}"),
                _ => write!(f, "{address}"),
            };
        }
        (_, Value::Text(text)) if !digest_only && !is_password(part, text) => {
            write_printable(f, text, CHARACTERS_SHOWN)?;
            f.write_char('~')?;
        }
        _ => {}
    }
    match id {
        Some(id) => write_id(f, id),
        None => write_digest(f, key, part, value),
    }
}

/// Whether a value is a user name and a password, of which no character is shown.
fn is_password(part: &Part, text: &[u8]) -> bool {
    matches!(part, Part::Header(name) if *name == AUTHORIZATION) && is_basic(text)
}

fn write_digest(
    f: &mut Formatter<'_>,
    key: &[u8; 32],
    part: &Part,
    value: &Value<'_>,
) -> fmt::Result {
    write_id(f, digest(key, part, value))
}

fn write_id(f: &mut Formatter<'_>, id: PartitionId) -> fmt::Result {
    let digest = id.high() >> (u64::BITS - u32::BITS);
    write!(f, "{digest:08x}")
}

fn write_missing(f: &mut Formatter<'_>, choice: &Choice) -> fmt::Result {
    f.write_str("no ")?;
    for (index, part) in choice.0.iter().enumerate() {
        if index > 0 {
            f.write_str(" | ")?;
        }
        write_name(f, part)?;
    }
    Ok(())
}

fn write_name(f: &mut Formatter<'_>, part: &Part) -> fmt::Result {
    let (kind, name) = spelling(part);
    f.write_str(kind)?;
    if name.is_empty() {
        return Ok(());
    }
    f.write_char(':')?;
    f.write_str(name)
}

/// Writes up to `characters` of a text. A character that is not printable ASCII becomes one `?`; stray continuation
/// bytes of UTF-8 are left out. `"` and `\` become `?` too if a client chose them.
fn write_printable(f: &mut Formatter<'_>, text: &[u8], characters: usize) -> fmt::Result {
    let is_start = |byte: &&u8| !(0x80..0xc0).contains(*byte);
    let from_client = characters == CHARACTERS_SHOWN;
    for &byte in text.iter().filter(is_start).take(characters) {
        let is_plain = byte == b' ' || byte.is_ascii_graphic();
        let breaks_json = from_client && matches!(byte, b'"' | b'\\');
        f.write_char(if is_plain && !breaks_json {
            char::from(byte)
        } else {
            '?'
        })?;
    }
    Ok(())
}

/// How a partition without parts, which all clients share, is shown.
pub(super) const ALL: &str = "all";
/// The text shown for a client without an address, as in nginx.
const NO_ADDRESS: &str = "unix:";
const CHARACTERS_SHOWN: usize = 4;
/// Most characters of a host, method or route that are shown.
const TEXT_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests;
