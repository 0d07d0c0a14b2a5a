//! A host's pattern: one name, or every name below one.

use super::pattern_error::PatternError;
use crate::request::canonical_host;

/// A host's pattern, parsed: exact, or `*.example.com`, where `*` stands for one or more labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPattern {
    name: Box<str>,
    wildcard: bool,
}

impl HostPattern {
    /// Parses `host`: a name as in a Host field, without port, or `*.` and a name.
    ///
    /// # Errors
    /// The text that is not a host, with its place.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (name, wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let error = |message: &str, expected: &str| PatternError {
            span: text.len() - name.len()..text.len(),
            message: message.to_owned(),
            expected: expected.to_owned(),
            hint: hint(text),
        };
        if matches!(name, "*" | "_") {
            let expected = "no `host` at all, which matches every host";
            return Err(error(&format!("`{name}` is not a host"), expected));
        }
        if !name.is_ascii() {
            let expected = "its `xn--` spelling, which is what clients send";
            return Err(error("the host is not ASCII", expected));
        }
        let is_address = name.starts_with('[');
        if !is_address && name.contains(':') {
            let expected = "a host without port; an IPv6 address stands in brackets";
            return Err(error("the host has a port", expected));
        }
        match canonical_host(name) {
            Ok(host) if !(is_address && wildcard) => Ok(Self {
                name: host.into(),
                wildcard,
            }),
            _ => Err(error(
                "this is not a host",
                "`example.com` or `*.example.com`",
            )),
        }
    }

    /// Whether a host, in the spelling that hosts are compared in, matches.
    pub(super) fn takes(&self, host: &str) -> bool {
        match host.strip_suffix(self.name()) {
            Some(before) if self.wildcard => before.ends_with('.'),
            Some(before) => before.is_empty(),
            None => false,
        }
    }

    /// Returns the name without `*.`, in the spelling that hosts are compared in.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the pattern matches the names below its name, and not the name itself.
    pub(super) fn is_wildcard(&self) -> bool {
        self.wildcard
    }
}

/// Returns how to write here what another proxy accepts as a host.
fn hint(text: &str) -> Option<String> {
    if matches!(text, "*" | "_") {
        return None;
    }
    let is_host = |name: &str| name.contains('.') && canonical_host(name).is_ok();
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let (name, rest) =
        after_scheme.split_at(after_scheme.find(['/', ':']).unwrap_or(after_scheme.len()));
    if let Some(name) = text.strip_prefix('.').filter(|name| is_host(name)) {
        return Some(format!(
            "did you mean `*.{name}`? `{name}` itself needs a route of its own"
        ));
    }
    if (!rest.is_empty() || after_scheme != text) && is_host(name) {
        let parts = "Scheme, port and path are no part of `host`";
        return Some(format!("did you mean `{name}`? {parts}"));
    }
    if text.contains([' ', ',', '|']) {
        return Some("a route has one host: write a route for each".to_owned());
    }
    let is_pattern =
        text.starts_with(['~', '^']) || text.contains(['(', '{', '\\']) || text.ends_with('*');
    is_pattern.then(|| {
        "`host` takes no expressions: name each host, or write `*.example.com` for all below one".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_in_their_comparable_spelling() {
        for (text, name, wildcard) in [
            ("example.com", "example.com", false),
            ("EXAMPLE.com.", "example.com", false),
            ("*.Example.com", "example.com", true),
            ("[0:0::1]", "[::1]", false),
            ("under_score", "under_score", false),
        ] {
            let pattern = HostPattern::parse(text).expect(text);
            assert_eq!((pattern.name(), pattern.is_wildcard()), (name, wildcard));
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_its_place() {
        for (text, span, message) in [
            ("", 0..0, "this is not a host"),
            ("*", 0..1, "`*` is not a host"),
            ("_", 0..1, "`_` is not a host"),
            (".example.com", 0..12, "this is not a host"),
            ("*.", 2..2, "this is not a host"),
            ("a*.com", 0..6, "this is not a host"),
            ("example.com:80", 0..14, "the host has a port"),
            ("*.bücher.de", 2..12, "the host is not ASCII"),
            ("a/b", 0..3, "this is not a host"),
            ("*.[::1]", 2..7, "this is not a host"),
        ] {
            let error = HostPattern::parse(text).expect_err(text);
            assert_eq!(
                (error.span, &*error.message),
                (span, message),
                "host {text:?}"
            );
        }
    }

    #[test]
    fn a_host_of_another_proxy_says_what_to_write() {
        for (text, hint) in [
            (".example.com", Some("did you mean `*.example.com`?")),
            ("http://example.com/a", Some("did you mean `example.com`?")),
            ("example.com:8080", Some("did you mean `example.com`?")),
            ("a.example.com b.example.com", Some("a route has one host")),
            (
                "~^(www\\.)?example\\.com$",
                Some("`host` takes no expressions"),
            ),
            ("{sub}.example.com", Some("`host` takes no expressions")),
            ("example.*", Some("`host` takes no expressions")),
            ("", None),
        ] {
            let said = HostPattern::parse(text).expect_err(text).hint;
            let said = said
                .as_deref()
                .map(|said| hint.is_some_and(|hint| said.starts_with(hint)));
            assert_eq!(said, hint.map(|_| true), "{text}");
        }
    }
}
