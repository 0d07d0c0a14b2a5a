//! One pass over the names of a request's fields, instead of a search for each name that matters.

use http::header::{CONNECTION, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName};

use super::cdn_loop::CDN_LOOP;
use super::claims::{PROXY_FIELDS, RESERVED, is_disguise};
use super::hop_by_hop::{STRIPPED, is_stripped};
use super::name_filter::NameFilter;

/// What the names of a request's fields tell about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SeenNames {
    /// Whether there is a field for which the request may be refused: Transfer-Encoding, Expect or CDN-Loop.
    pub has_suspicious: bool,
    /// Which of the fields are not for the origin.
    pub unwanted: Unwanted,
    /// Whether a field's name reads like that of another field, which routes or policies go by.
    pub has_disguises: bool,
}

/// Which fields of a request are not for the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unwanted {
    /// None: all fields may go to the origin.
    #[default]
    None,
    /// Only Connection, as in most requests of HTTP/1.1.
    OnlyConnection,
    /// Others, with or without Connection; [`strip_request`](super::hop_by_hop::strip_request) removes them.
    Others,
}

impl SeenNames {
    /// Makes the filter of all names that matter; `own` are those that listeners, routes and policies go by.
    pub fn filter<'n>(own: impl Iterator<Item = &'n HeaderName>) -> NameFilter {
        own.fold(COMMON, |filter, name| filter.with(name.as_str()))
    }

    /// Looks at the names that pass `filter`. `decisive` are the headers that listeners, routes and policies go by;
    /// `is_forbidden` says which fields the peer may not send.
    #[expect(
        clippy::inline_always,
        reason = "one busy caller, and each request comes here"
    )]
    #[inline(always)]
    pub fn of(
        headers: &HeaderMap,
        filter: &NameFilter,
        decisive: &[HeaderName],
        is_forbidden: impl Fn(&HeaderName) -> bool,
    ) -> Self {
        let mut seen = Self::default();
        for name in headers.keys().filter(|name| filter.may_have(name)) {
            seen.note(name, decisive, &is_forbidden);
        }
        seen
    }

    /// Notes what a name tells. It is not inlined, because few names pass the filter.
    #[inline(never)]
    fn note(
        &mut self,
        name: &HeaderName,
        decisive: &[HeaderName],
        is_forbidden: &impl Fn(&HeaderName) -> bool,
    ) {
        if *name == CONNECTION {
            self.unwanted = self.unwanted.max(Unwanted::OnlyConnection);
            return;
        }
        if is_stripped(name) || is_forbidden(name) {
            self.unwanted = Unwanted::Others;
        }
        self.has_suspicious |= matches!(*name, TRANSFER_ENCODING | EXPECT) || *name == CDN_LOOP;
        self.has_disguises |= decisive.iter().any(|real| is_disguise(name, real));
    }
}

/// The names that matter regardless of the file.
const COMMON: NameFilter = NameFilter::NONE
    .with_all(&STRIPPED)
    .with_all(&PROXY_FIELDS)
    .with_all(&[&["cdn-loop"]])
    .with_prefix(RESERVED);

#[cfg(test)]
mod tests {
    use super::super::AddressSource;
    use super::super::claims::requires_trusted_peer;
    use super::super::hop_by_hop::tests::fields;
    use super::*;

    #[test]
    fn each_name_that_matters_is_seen_in_every_spelling_in_which_it_does() {
        let own = "x-a-name-that-is-longer-than-the-longest-that-counts";
        let others = ["cdn-loop", "tollgate-tier", own, "-id", "x-version"];
        let [own, id, routed] = [own, "-id", "x-version"].map(HeaderName::from_static);
        let filter = SeenNames::filter([&own, &id, &routed].into_iter());
        let (source, routed) = (AddressSource::Header(own), [routed]);
        let forbids = |name: &HeaderName| requires_trusted_peer(name, &source, Some(&id));
        let names = [&STRIPPED[..], &PROXY_FIELDS, &[&others]].concat().concat();
        for name in names
            .into_iter()
            .flat_map(|name| [name.to_owned(), name.replace('-', "_")])
        {
            let (mut told, field) = (SeenNames::default(), fields(&[(&name, "1")]));
            let parsed: HeaderName = name.parse().expect("a name");
            told.note(&parsed, &routed, &forbids);
            let seen = SeenNames::of(&field, &filter, &routed, forbids);
            assert_eq!(format!("{seen:?}"), format!("{told:?}"), "{name}");
        }
    }

    #[test]
    fn names_that_most_requests_have_are_not_looked_at_twice() {
        let filter = SeenNames::filter([].into_iter());
        for name in [
            "host",
            "user-agent",
            "accept",
            "accept-encoding",
            "accept-language",
            "authorization",
            "cache-control",
            "content-type",
            "cookie",
            "if-none-match",
            "origin",
            "referer",
            "sec-fetch-mode",
            "traceparent",
            "x-api-key",
        ] {
            assert!(!filter.may_have(&HeaderName::from_static(name)), "{name}");
        }
    }

    #[test]
    fn a_name_tells_what_has_to_be_done() {
        let routed = [HeaderName::from_static("x-version")];
        let filter = SeenNames::filter(routed.iter());
        let seen = |lines: &[(&str, &str)]| {
            let seen = SeenNames::of(&fields(lines), &filter, &routed, |name| name == "x-real-ip");
            (seen.unwanted, seen.has_suspicious, seen.has_disguises)
        };
        for (name, told) in [
            ("accept", (Unwanted::None, false, false)),
            ("x-version", (Unwanted::None, false, false)),
            ("x_version", (Unwanted::None, false, true)),
            ("x-real-ip", (Unwanted::Others, false, false)),
            ("true-client-ip", (Unwanted::None, false, false)),
            ("content-length", (Unwanted::None, false, false)),
            ("content_length", (Unwanted::Others, false, false)),
            ("connection", (Unwanted::OnlyConnection, false, false)),
            ("expect", (Unwanted::Others, true, false)),
            ("cdn-loop", (Unwanted::None, true, false)),
        ] {
            assert_eq!(seen(&[(name, "1")]), told, "{name}");
            assert_eq!(
                seen(&[("accept", "*/*"), (name, "1"), ("host", "a")]),
                told,
                "{name}"
            );
        }
    }
}
