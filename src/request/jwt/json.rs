//! JSON of tokens, read so that it has only one meaning: no object has two members of one name.
//!
//! RFC 7519 (section 4) lets a reader refuse such an object or take the last member; some origins
//! take the first.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object by name, each value as it is written.
pub(super) struct JsonMembers<'t>(BTreeMap<String, &'t RawValue>);

impl<'t> JsonMembers<'t> {
    /// Reads an object; none if the text is not an object, or has two members of one name.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Returns the value of a member.
    pub(super) fn value(&self, name: &str) -> Option<&'t RawValue> {
        self.0.get(name).copied()
    }

    /// Whether no object in the values has two members of one name, and no value is nested too deeply.
    pub(super) fn are_unique(&self) -> bool {
        self.are_unique_within(DEPTH_MAX)
    }

    fn are_unique_within(&self, depth: usize) -> bool {
        self.0.values().all(|value| is_unique(value, depth))
    }

    /// Finds the value at a path, in which a dot may lead into an object or be part of a name; the
    /// shortest names are tried first.
    pub(super) fn find(&self, path: &str) -> Option<&'t RawValue> {
        let into = |(dot, _)| {
            let object = Self::read(self.value(&path[..dot])?.get())?;
            object.find(&path[dot + 1..])
        };
        path.match_indices('.')
            .find_map(into)
            .or_else(|| self.value(path))
    }
}

fn is_unique(value: &RawValue, depth: usize) -> bool {
    let text = value.get();
    let Some(deeper) = depth.checked_sub(1) else {
        return false;
    };
    match text.as_bytes().first() {
        Some(b'{') => JsonMembers::read(text).is_some_and(|inner| inner.are_unique_within(deeper)),
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(text)
            .is_ok_and(|items| items.iter().all(|item| is_unique(item, deeper))),
        _ => true,
    }
}

/// Returns a string, a boolean or a number (as it is written) as text; none for an empty string and
/// for any other value.
pub(super) fn scalar(value: &RawValue) -> Option<Box<str>> {
    let text = value.get();
    match text.as_bytes().first()? {
        b'"' => string(value).filter(|text| !text.is_empty()),
        b'n' | b'{' | b'[' => None,
        _ => Some(text.into()),
    }
}

/// Returns the text of a string; none for any other value.
pub(super) fn string(value: &RawValue) -> Option<Box<str>> {
    serde_json::from_str(value.get()).ok()
}

impl<'de> Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = JsonMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("a name comes twice"));
            }
        }
        Ok(JsonMembers(members))
    }
}

/// How deeply values may be nested.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_come_once_in_each_object() {
        for (text, is_one, is_unique) in [
            ("{}", true, true),
            (r#" {"a":1,"b":{"a":[{"a":2},{"a":3}]}} "#, true, true),
            (r#"{"a":1,"a":1}"#, false, false),
            (r#"{"a":1,"\u0061":2}"#, false, false),
            (r#"{"a":{"b":1,"b":2}}"#, true, false),
            (r#"{"a":[[{"b":1,"b":2}]]}"#, true, false),
            ("[]", false, false),
            (r#"{"a":1} x"#, false, false),
            (r#"{"a":}"#, false, false),
            ("", false, false),
        ] {
            let members = JsonMembers::read(text);
            assert_eq!(members.is_some(), is_one, "{text}");
            assert_eq!(
                members.is_some_and(|member| member.are_unique()),
                is_unique,
                "{text}"
            );
        }
        let nested = |depth| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        for (depth, expected) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (5_000, false)] {
            let text = nested(depth);
            let members = JsonMembers::read(&text).expect("one object");
            assert_eq!(members.are_unique(), expected, "{depth}");
        }
    }

    #[test]
    fn a_path_leads_into_objects_first_and_is_a_literal_name_last() {
        let text = r#"{"a":{"b":"nested","d":null},"a.b":"literal","a.c":"other","x":1,
            "https://example.com/app":{"plan":"paid"},"t":true,"e":"","f":1.50,"l":[1],"x.y":"both"}"#;
        let members = JsonMembers::read(text).expect("an object");
        for (path, expected) in [
            ("a.b", Some("nested")),
            ("a.c", Some("other")),
            ("a.d", None),
            ("a", None),
            ("x", Some("1")),
            ("x.y", Some("both")),
            ("t", Some("true")),
            ("f", Some("1.50")),
            ("e", None),
            ("l", None),
            ("none", None),
            ("a.b.c", None),
            ("https://example.com/app.plan", Some("paid")),
        ] {
            let found = members.find(path).and_then(scalar);
            assert_eq!(found.as_deref(), expected, "{path}");
        }
    }
}
