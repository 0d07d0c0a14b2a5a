//! Heads without their secrets: a field is shown if it can name no client and carry no secret, otherwise its length is.

use std::fmt::Write as _;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING,
    CONTENT_LENGTH, CONTENT_TYPE, DATE, EXPECT, HOST, IF_MODIFIED_SINCE, ORIGIN, RANGE, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT, VIA,
};
use http::{HeaderName, HeaderValue};

use crate::request::ClientNames;
use crate::snapshot::Snapshot;

/// What may be shown of heads.
#[derive(Clone, Copy)]
pub(super) struct ShownHeads<'s> {
    names: ClientNames,
    /// The fields by which clients are told apart.
    decisive: &'s [HeaderName],
    /// Whether the host was accepted, so that the log shows it.
    is_host_good: bool,
}

impl<'s> ShownHeads<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, is_host_good: bool) -> Self {
        Self {
            names: snapshot.log.clients,
            decisive: &snapshot.decisive_headers,
            is_host_good,
        }
    }

    /// Returns what is shown of a path: as much as the log shows.
    pub(super) fn path<'p>(&self, path: &'p str) -> &'p str {
        match self.names {
            ClientNames::Short => &path[..path.floor_char_boundary(PATH_BYTES_MAX)],
            ClientNames::Digest => "(a path)",
        }
    }

    /// Writes fields, a line each, as many as there is room for.
    pub(super) fn write<'f>(
        &self,
        fields: impl Iterator<Item = (&'f HeaderName, &'f HeaderValue)>,
        out: &mut String,
    ) {
        for (name, value) in fields {
            if out.len() > HEAD_BYTES_MAX {
                out.push_str("\n(further fields are not shown)");
                return;
            }
            write!(out, "\n{name}: ").expect("memory takes every byte");
            self.write_value(name, value, out);
        }
    }

    fn write_value(&self, name: &HeaderName, value: &HeaderValue, out: &mut String) {
        let shown = value.to_str().ok().filter(|_| self.shows(name));
        match shown {
            Some(text) if text.len() <= VALUE_BYTES_MAX => out.push_str(text),
            Some(text) => {
                out.push_str(&text[..VALUE_BYTES_MAX]);
                out.push('…');
            }
            None => write!(out, "({} bytes)", value.len()).expect("memory takes every byte"),
        }
    }

    fn shows(&self, name: &HeaderName) -> bool {
        if *name == HOST {
            return self.is_host_good;
        }
        let is_plain =
            FRAMING.contains(name) || self.names == ClientNames::Short && PLAIN.contains(name);
        is_plain && !self.decisive.contains(name)
    }
}

/// Fields that tell how a message is made, and nothing about who sends it.
static FRAMING: [HeaderName; 7] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
];

/// Fields that say no more about a client than the log does.
static PLAIN: [HeaderName; 15] = [
    ACCEPT_LANGUAGE,
    CACHE_CONTROL,
    DATE,
    EXPECT,
    IF_MODIFIED_SINCE,
    ORIGIN,
    RANGE,
    TE,
    TRAILER,
    UPGRADE,
    USER_AGENT,
    VIA,
    HeaderName::from_static("cdn-loop"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
];

/// Most bytes of a path that are shown, as in the log.
const PATH_BYTES_MAX: usize = 1_024;
/// Most bytes of a value that are shown; it is ASCII.
const VALUE_BYTES_MAX: usize = 200;
/// After this many bytes, no more fields are shown.
const HEAD_BYTES_MAX: usize = 8 * 1_024;
