//! What the operator configures of answers and fields: a policy's own refusals, and the fields that a route changes.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::clock::Micros;
use crate::request::claims::remove_lookalikes;
use crate::request::{copied_name, copied_value};

/// How a policy refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalStyle {
    /// The status of the policy's refusals.
    pub status: StatusCode,
    /// The body of the policy's refusals, if it is not problem+json.
    pub page: Option<RefusalPage>,
    /// By how much Retry-After is lengthened at random, at most; `None` means by the default.
    pub retry_jitter: Option<Jitter>,
}

/// The body of a policy's own refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalPage {
    /// The body, in parts.
    pub body: Vec<PagePart>,
    /// The body's Content-Type.
    pub content_type: HeaderValue,
}

/// A part of a refusal's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePart {
    /// Text as written in the file.
    Text(Box<str>),
    /// `{policy}`: the name of the policy that refuses.
    Policy,
    /// `{reason}`: which of its quotas refuses, or why it never admits the request.
    Reason,
    /// `{retry_after}`: the seconds of Retry-After.
    RetryAfter {
        /// The text that is written if it is never worth trying again.
        never: &'static str,
    },
}

/// A random extra wait, so that refused clients do not all come back at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Up to this long.
    Time(Micros),
    /// Up to this percentage of the wait itself.
    Percent(u32),
}

/// The fields that a route sets in requests or answers, and those that it removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldChanges {
    /// Fields that are set, each with its only value.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// Fields that are removed before others are set.
    pub remove: Vec<HeaderName>,
}

/// The fields that a route changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteChanges {
    /// Changes to requests; they may also affect fields that the gateway sets itself.
    pub request: FieldChanges,
    /// Changes to answers. Limit headers are added afterwards, so they are not affected.
    pub response: FieldChanges,
}

impl RefusalPage {
    /// Splits a body at the three placeholders that are filled in; all other braces are plain text.
    pub fn new(body: &str, content_type: HeaderValue) -> Self {
        let is_json = content_type
            .to_str()
            .is_ok_and(|text| text.to_ascii_lowercase().contains("json"));
        let never = if is_json { "null" } else { "never" };
        let filled_in = [
            ("{policy}", PagePart::Policy),
            ("{reason}", PagePart::Reason),
            ("{retry_after}", PagePart::RetryAfter { never }),
        ];
        let first = |rest: &str| {
            let found = filled_in
                .iter()
                .filter_map(|(word, part)| Some((rest.find(word)?, word.len(), part)));
            found.min_by_key(|(at, ..)| *at)
        };
        let text = |text: &str| PagePart::Text(text.into());
        let (mut parts, mut rest) = (Vec::new(), body);
        while let Some((at, word_bytes, part)) = first(rest) {
            parts.extend([text(&rest[..at]), part.clone()]);
            rest = &rest[at + word_bytes..];
        }
        parts.push(text(rest));
        Self {
            body: parts,
            content_type,
        }
    }
}

impl Default for RefusalStyle {
    fn default() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            page: None,
            retry_jitter: None,
        }
    }
}

impl Default for Jitter {
    fn default() -> Self {
        Self::Time(Micros(0))
    }
}

impl Jitter {
    /// Returns the most that may be added to `wait`.
    pub fn most(self, wait: Micros) -> Micros {
        match self {
            Self::Time(most) => most,
            Self::Percent(percent) => Micros(wait.0 / 100 * u64::from(percent)),
        }
    }
}

impl RouteChanges {
    /// Copies the changes, without sharing the bytes of the names and values that are set.
    #[must_use]
    pub fn copied(&self) -> Self {
        Self {
            request: self.request.copied(),
            response: self.response.copied(),
        }
    }
}

impl FieldChanges {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// Returns the names of the fields that are changed.
    pub fn names(&self) -> impl Iterator<Item = &HeaderName> {
        let set = self.set.iter().map(|(name, _)| name);
        self.remove.iter().chain(set)
    }

    /// Copies the changes, without sharing the bytes of the names and values that are set.
    #[must_use]
    pub fn copied(&self) -> Self {
        let set = self.set.iter();
        Self {
            set: set
                .map(|(name, value)| (copied_name(name), copied_value(value)))
                .collect(),
            remove: self.remove.clone(),
        }
    }

    /// Changes the fields of a request, and removes those that an origin would take for one of them.
    pub fn apply_to_request(&self, headers: &mut HeaderMap) {
        for name in self.names() {
            remove_lookalikes(headers, name);
        }
        self.apply(headers);
    }

    /// Changes the fields of a message.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_of_changes_shares_no_bytes_with_them() {
        let own = HeaderName::from_bytes(b"x-gateway").expect("a name");
        let value = HeaderValue::from_bytes(b"tollgate").expect("a value");
        let changes = FieldChanges {
            set: vec![(own.clone(), value.clone())],
            remove: vec![own],
        };
        let (copy, clone) = (changes.copied(), changes.clone());
        assert_eq!(copy, changes);
        let places = |changes: &FieldChanges| {
            let (name, value) = &changes.set[0];
            [name.as_str().as_ptr(), value.as_bytes().as_ptr()]
        };
        assert_eq!(places(&clone), places(&changes), "a clone shares them");
        let [name, value] = places(&changes);
        assert!(!places(&copy).contains(&name) && !places(&copy).contains(&value));
    }
}
