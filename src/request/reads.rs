//! What the policies of a route read of a request, and how origins are made to read the same.
//!
//! This is collected when the file is compiled, so a route whose policies read nothing costs nothing more. The lines of
//! a header are joined into one. A cookie, a parameter of the query, and the header of a token or a credential may come
//! only once, because of two, some origins take the first and some the last. A password in Authorization must have only
//! one reading.

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName};

use super::cookie::cookie_value;
use super::credential::credential;
use super::joined_lines::{join_header, needs_joining};
use super::parameter::Ambiguous;
use super::partition::Part;
use super::query::query_value;

/// What the policies of a route read of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    headers: Vec<HeaderName>,
    /// Those of `headers` that may come only once.
    single_headers: Vec<HeaderName>,
    cookies: Vec<Box<str>>,
    parameters: Vec<Box<str>>,
    /// Whether Authorization is read, for something other than a token.
    has_credential: bool,
    has_claims: bool,
}

impl Reads {
    /// Collects what is read for `parts`; tokens come in `token_header`.
    pub fn of<'p>(
        parts: impl IntoIterator<Item = &'p Part>,
        token_header: Option<&HeaderName>,
    ) -> Self {
        let mut reads = Self::default();
        for part in parts {
            match part {
                Part::Cookie(name) => add(&mut reads.cookies, name),
                Part::Query(name) => add(&mut reads.parameters, name),
                Part::Claim(_) => reads.has_claims = true,
                Part::Header(name) => reads.has_credential |= *name == AUTHORIZATION,
                _ => {}
            }
            let Some(name) = part.header(token_header) else {
                continue;
            };
            add(&mut reads.headers, name);
            if *name == AUTHORIZATION || matches!(part, Part::Claim(_)) {
                add(&mut reads.single_headers, name);
            }
        }
        reads
    }

    /// Adds a header that is read for something other than to name the client, such as a cost.
    #[must_use]
    pub fn with_header(mut self, name: &HeaderName) -> Self {
        add(&mut self.headers, name);
        self
    }

    /// Adds that claims are read to choose an endpoint. No request is refused for what its token says there.
    #[must_use]
    pub fn with_claims(mut self) -> Self {
        self.has_claims = true;
        self
    }

    /// Returns the headers that are read, each once.
    pub fn headers(&self) -> &[HeaderName] {
        &self.headers
    }

    /// Whether claims are read.
    pub fn has_claims(&self) -> bool {
        self.has_claims
    }

    /// Checks that origins read the same values; `joined` are the headers whose several lines have become one.
    ///
    /// # Errors
    /// If something that may name the client has two readings. The caller should refuse the request.
    pub fn check(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        joined: &[HeaderName],
    ) -> Result<(), Ambiguous> {
        for name in &self.single_headers {
            if joined.contains(name) || headers.get_all(name).iter().nth(1).is_some() {
                return Err(Ambiguous);
            }
        }
        if self.has_credential
            && let Some(value) = headers.get(AUTHORIZATION)
        {
            credential(value.as_bytes())?;
        }
        for name in &self.cookies {
            cookie_value(headers, name)?;
        }
        for name in &self.parameters {
            query_value(query.unwrap_or_default(), name)?;
        }
        Ok(())
    }

    /// Joins the lines of each header that is read, and removes fields whose names read like its name, so that an
    /// origin sees the value that was counted, whichever line it reads. `has_disguises` says whether there may be such
    /// fields.
    pub fn join_lines(&self, headers: &mut HeaderMap, has_disguises: bool) {
        if needs_joining(headers, has_disguises) {
            for name in &self.headers {
                join_header(headers, name);
            }
        }
    }
}

impl Part {
    /// Returns the header that the part is read from, if any; tokens come in `token_header`.
    pub fn header<'p>(&'p self, token_header: Option<&'p HeaderName>) -> Option<&'p HeaderName> {
        match self {
            Self::Header(name) => Some(name),
            Self::Cookie(_) => Some(&COOKIE),
            Self::Claim(_) => token_header,
            _ => None,
        }
    }
}

fn add<T: Clone + PartialEq>(list: &mut Vec<T>, item: &T) {
    if !list.contains(item) {
        list.push(item.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::hop_by_hop::tests::fields;
    use super::*;

    const X_KEY: HeaderName = HeaderName::from_static("x-key");

    #[test]
    fn only_what_is_read_can_be_ambiguous() {
        let (cookie, query) = (Part::Cookie("key".into()), Part::Query("key".into()));
        let (claim, header) = (Part::Claim("sub".into()), Part::Header(X_KEY));
        let authorization = Part::Header(AUTHORIZATION);
        let twice = |name| [(name, "a"), (name, "b")];
        let (cookies, keys) = ([("cookie", "key=1; key=2")], twice("x-key"));
        let passwords = twice("authorization");
        let basic = |text| [("authorization", text)];
        let (good, bad) = (basic("basic YTpiYw"), basic("Basic YTpiYx"));
        for (name, part, headers, parameters, is_ambiguous) in [
            ("cookie", &cookie, &cookies[..], None, true),
            ("cookie, not read", &query, &cookies, None, false),
            ("query", &query, &[], Some("key=1&key=2"), true),
            ("query, not read", &cookie, &[], Some("key=1&key=2"), false),
            ("password", &authorization, &passwords, None, true),
            ("password, not read", &header, &passwords, None, false),
            ("canonical", &authorization, &good, None, false),
            ("not canonical", &authorization, &bad, None, true),
            ("not canonical, not read", &claim, &bad, None, false),
            ("token", &claim, &keys, None, true),
            ("header", &header, &keys, None, false),
            ("password beside a token", &claim, &passwords, None, false),
        ] {
            let found = Reads::of([part], Some(&X_KEY)).check(&fields(headers), parameters, &[]);
            assert_eq!(found.is_err(), is_ambiguous, "{name}");
        }
    }

    #[test]
    fn joined_lines_reach_the_origin_as_the_value_that_was_counted() {
        let mut headers = fields(&[
            ("x-key", "a"),
            ("x-key", "b"),
            ("x_key", "c"),
            ("x-other", "c"),
            ("x-other", "d"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ]);
        let parts = [Part::Header(X_KEY), Part::Cookie("a".into())];
        Reads::of(&parts, None).join_lines(&mut headers, true);
        let expected = fields(&[
            ("x-key", "a, b"),
            ("x-other", "c"),
            ("x-other", "d"),
            ("cookie", "a=1; b=2"),
        ]);
        assert_eq!(headers, expected);
    }
}
