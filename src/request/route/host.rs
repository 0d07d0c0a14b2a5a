//! A host's pattern: one name, or every name under one.

use super::pattern_error::PatternError;
use crate::request::canonical_host;

/// A host's pattern, parsed: exact, or `*.example.com`, which any number of labels may precede.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPattern {
    name: Box<str>,
    wildcard: bool,
}

impl HostPattern {
    /// Parses `host`: a name as a Host field has it, without port, or `*.` and a name.
    ///
    /// # Errors
    /// What is not a host, with its place.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let (name, wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let error = |message: &str, expected: &str| PatternError {
            span: text.len() - name.len()..text.len(),
            message: message.to_owned(),
            expected: expected.to_owned(),
        };
        if name == "*" {
            let expected = "no `host` at all, which matches every host";
            return Err(error("`*` is not a host", expected));
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

    /// The name, in the spelling that hosts are compared in; without the `*.`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Says whether the pattern matches the names below its name, and not the name itself.
    pub(super) fn is_wildcard(&self) -> bool {
        self.wildcard
    }
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
}
