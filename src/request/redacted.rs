//! A partition as the log and the admin port show it.
//!
//! Addresses, hosts, methods and routes are in clear. What may be a secret (a header's value, a
//! piece of the path) is shown as its first four characters, `~`, and eight hex digits of a keyed
//! digest: enough to tell clients apart and to recognise one, not enough to pose as one. A name with its
//! password (Basic) is shown as the digest alone. The text
//! is printable ASCII, so it cannot break a line; a writer of JSON still escapes `"` and `\` in a
//! route's name.

use std::fmt::{self, Display, Formatter, Write};
use std::net::IpAddr;
use std::rc::Rc;

use http::header::AUTHORIZATION;

use super::credential::is_basic;
use super::partition::{Choice, Facts, Part, Partition, Value, digest, first_present, spelling};
use crate::limit::PartitionId;

/// How partition values that may be secrets are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientNames {
    /// Four characters and eight hex digits of a digest.
    #[default]
    Short,
    /// The digest alone.
    Digest,
}

/// A request's partition, shown without a secret. It allocates only for a header on several lines
/// or an unusual escape.
#[derive(Clone, Copy, Debug)]
pub struct Redacted<'r> {
    key: &'r [u8; 32],
    pub(super) partition: &'r Partition,
    pub(super) facts: &'r Facts<'r>,
    names: ClientNames,
    /// The id of the partition, if it is known.
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

/// Shows a client's address: in clear, or as its digest if only digests are shown. A client without one came
/// by a Unix socket.
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

/// A client's address as it was shown last: most requests of a connection have the same.
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
    /// Does what [`redacted_address`] does, but does not write the address again that it remembers.
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
        let is_plain = matches!(choices.as_slice(), [choice] if choice.0.len() == 1);
        for (index, choice) in choices.iter().enumerate() {
            let Some((part, value)) = first_present(choice, self.facts) else {
                continue;
            };
            if index > 0 {
                f.write_str(", ")?;
            }
            if !is_plain {
                write_name(f, part)?;
                f.write_char('=')?;
            }
            self.write_value(f, part, &value)?;
        }
        Ok(())
    }
}

impl Redacted<'_> {
    /// Takes the digest of a partition of one item from its id, which is the same, and makes none.
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

/// Writes a value, with its digest under the key: in clear, redacted or as its digest alone.
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

/// Whether a value is a name and a password, of which no character is shown.
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

pub(super) fn write_name(f: &mut Formatter<'_>, part: &Part) -> fmt::Result {
    let (kind, name) = spelling(part);
    f.write_str(kind)?;
    if name.is_empty() {
        return Ok(());
    }
    f.write_char(':')?;
    f.write_str(name)
}

/// Writes up to `characters` of a text. A character that is not printable ASCII becomes one `?`,
/// and so does a byte that is part of none. `"` and `\` become `?` too if a client chose them.
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

/// How one quota for all clients is shown.
pub(super) const ALL: &str = "all";
/// Stands for the address of a client that has none, as in nginx.
const NO_ADDRESS: &str = "unix:";
const CHARACTERS_SHOWN: usize = 4;
/// Bytes of a host, method or route that are shown.
const TEXT_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::super::partition::tests::{KEY, SAMPLE, Sample, api_key};
    use super::super::partition::{Identified, Missing, partition_id};
    use super::*;

    fn show(sample: &Sample, partition: &[&[Part]], names: ClientNames) -> String {
        let choices = partition.iter().map(|parts| Choice(parts.to_vec().into()));
        let partition = Partition(choices.collect());
        sample.with(|facts| redacted(&KEY, &partition, facts, names).to_string())
    }

    /// Replaces runs of eight hex digits that end a value.
    fn without_digests(text: &str) -> String {
        let mask = |value: &str| {
            let (head, tail) = value.split_at(value.len().saturating_sub(8));
            let is_digest = tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit());
            if is_digest {
                format!("{head}#")
            } else {
                value.to_owned()
            }
        };
        text.split(", ").map(mask).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn clients_are_shown_without_their_secrets() {
        type Row<'t> = (&'t str, &'t Sample, &'t [&'t [Part]], ClientNames, &'t str);
        let keyed = Sample {
            headers: &[("x-api-key", "live_secret")],
            ..SAMPLE
        };
        let odd = Sample {
            headers: &[("x-api-key", "\"\\é\tx")],
            ..SAMPLE
        };
        let v6 = Sample {
            client: "2001:db8::1",
            ..SAMPLE
        };
        let claimed = Sample {
            claims: &[("email", "alice@example.com")],
            ..SAMPLE
        };
        let key: &[Part] = &[api_key()];
        let claim: &[Part] = &[Part::Claim("email".into())];
        let ip: &[Part] = &[Part::Ip];
        let named: &[&[Part]] = &[&[Part::Host], &[Part::Method], &[Part::Route], ip];
        let (short, digest) = (ClientNames::Short, ClientNames::Digest);
        let table: [Row<'_>; 13] = [
            ("v4", &SAMPLE, &[ip], short, "203.0.113.9"),
            ("v6", &v6, &[ip], short, "2001:db8::/64"),
            ("address, digest", &SAMPLE, &[ip], digest, "#"),
            ("key", &keyed, &[key], short, "live~#"),
            ("key, digest", &keyed, &[key], digest, "#"),
            ("odd key", &odd, &[key], short, "????~#"),
            ("claim", &claimed, &[claim], short, "alic~#"),
            ("missing", &SAMPLE, &[key], short, "no header:x-api-key"),
            ("all", &SAMPLE, &[], short, "all"),
            ("path", &SAMPLE, &[&[Part::Path]], short, "/ite~#"),
            (
                "param",
                &SAMPLE,
                &[&[Part::PathParam("id".into())]],
                short,
                "7~#",
            ),
            (
                "choice",
                &SAMPLE,
                &[&[api_key(), Part::Ip]],
                short,
                "ip=203.0.113.9",
            ),
            (
                "compound",
                &SAMPLE,
                named,
                digest,
                "host=a.com, method=GET, route=/items/{id}, ip=#",
            ),
        ];
        for (name, sample, partition, names, expected) in table {
            let text = show(sample, partition, names);
            assert_eq!(without_digests(&text), expected, "{name}");
        }
    }

    #[test]
    fn a_partition_of_one_part_is_shown_by_its_id_as_by_its_digest() {
        let keyed = Sample {
            headers: &[("x-api-key", "live_secret")],
            ..SAMPLE
        };
        for parts in [vec![api_key()], vec![Part::Ip, api_key()]] {
            for names in [ClientNames::Short, ClientNames::Digest] {
                let partition = Partition(smallvec![Choice(parts.clone().into())]);
                keyed.with(|facts| {
                    let id = partition_id(&KEY, &partition, Missing::Refuse, facts);
                    let Identified::PartitionId(id) = id else {
                        panic!("the request has the part");
                    };
                    let client = redacted(&KEY, &partition, facts, names);
                    assert_eq!(client.identified(id).to_string(), client.to_string());
                });
            }
        }
    }

    #[test]
    fn digests_tell_clients_apart_and_depend_on_the_key() {
        let show = |headers, key: &[u8; 32]| {
            let sample = Sample { headers, ..SAMPLE };
            let partition = Partition(smallvec![Choice(smallvec![api_key()])]);
            sample.with(|facts| redacted(key, &partition, facts, ClientNames::Short).to_string())
        };
        let first = show(&[("x-api-key", "live_1")], &KEY);
        assert_eq!(first, show(&[("x-api-key", "live_1")], &KEY));
        assert_ne!(first, show(&[("x-api-key", "live_2")], &KEY));
        assert_ne!(first, show(&[("x-api-key", "live_1")], &[8; 32]));
    }

    #[test]
    fn address_is_shown_the_same_behind_others() {
        let [a, b] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|address| Some(IpAddr::from(address)));
        let mut latest = LatestAddress::default();
        for (key, address, names) in [
            (&KEY, a, ClientNames::Short),
            (&KEY, a, ClientNames::Short),
            (&KEY, None, ClientNames::Short),
            (&KEY, b, ClientNames::Short),
            (&KEY, b, ClientNames::Digest),
            (&[8; 32], b, ClientNames::Digest),
            (&[8; 32], a, ClientNames::Digest),
        ] {
            let expected = redacted_address(key, address, names).to_string();
            assert_eq!(*latest.redacted(key, address, names), *expected);
        }
    }
}
