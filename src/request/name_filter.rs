//! A quick test of field names, to look for a few fields among all of a head.

use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;

/// A filter that passes a set of names, and few others. It looks at a name's length and at its first and third bytes,
/// because many names begin with `x-`. `_` and `-` count as the same.
#[derive(Clone, Copy, Debug)]
pub struct NameFilter([u32; PLACES]);

impl NameFilter {
    /// The filter that passes no name.
    pub(super) const NONE: Self = Self([0; PLACES]);

    /// Adds all names of several lists.
    #[must_use]
    pub(super) const fn with_all(mut self, lists: &[&[&str]]) -> Self {
        let mut list = 0;
        while list < lists.len() {
            let mut at = 0;
            while at < lists[list].len() {
                self = self.with(lists[list][at]);
                at += 1;
            }
            list += 1;
        }
        self
    }

    /// Adds a name.
    #[must_use]
    pub(super) const fn with(mut self, name: &str) -> Self {
        let name = name.as_bytes();
        self.0[place(name)] |= 1 << length(name);
        self
    }

    /// Adds all names that begin with `prefix`, which has at least three bytes.
    pub(super) const fn with_prefix(mut self, prefix: &str) -> Self {
        let prefix = prefix.as_bytes();
        assert!(prefix.len() >= 3, "its third byte is looked at");
        self.0[place(prefix)] |= u32::MAX << length(prefix);
        self
    }

    /// Whether a name may be one of those that were added.
    #[inline]
    pub(super) fn may_have(&self, name: &HeaderName) -> bool {
        let name = name.as_str().as_bytes();
        (self.0[place(name)] >> length(name)) & 1 == 1
    }
}

/// Returns the names of the fields for which `unwanted` is true.
#[inline]
pub(super) fn named(
    headers: &HeaderMap,
    mut unwanted: impl FnMut(&HeaderName) -> bool,
) -> SmallVec<[HeaderName; 4]> {
    let mut names = SmallVec::new();
    for name in headers.keys() {
        if unwanted(name) {
            names.push(name.clone());
        }
    }
    names
}

const fn place(name: &[u8]) -> usize {
    match name {
        [first, _, third, ..] => (with_dash(*first) + with_dash(*third)) % PLACES,
        _ => 0,
    }
}

/// Returns `-` for `_`, and other bytes as they are.
const fn with_dash(byte: u8) -> usize {
    match byte {
        b'_' => b'-' as usize,
        _ => byte as usize,
    }
}

/// Returns the length of a name; longer names count as [`LENGTH_MAX`].
const fn length(name: &[u8]) -> usize {
    if name.len() < LENGTH_MAX {
        name.len()
    } else {
        LENGTH_MAX
    }
}

const PLACES: usize = 32;
const LENGTH_MAX: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_lists_pass_in_every_spelling_and_most_others_do_not() {
        let long = "x-a-name-that-is-longer-than-the-longest-that-counts";
        let filter = NameFilter::NONE.with_all(&[&["te", "x-real-ip", "cf-id"], &[long]]);
        let filter = filter.with("y_key").with_prefix("tollgate-");
        for (name, passes) in [
            ("te", true),
            ("x-real-ip", true),
            ("x_real_ip", true),
            ("cf-id", true),
            ("cf_id", true),
            ("te_", false),
            ("y_key", true),
            ("y-key", true),
            (long, true),
            ("tollgate-tier", true),
            ("tollgate_", true),
            ("tollgate", false),
            ("x-real-id", true),
            ("x-real-ips", false),
            ("accept", false),
            ("host", false),
        ] {
            let name: HeaderName = name.parse().expect("a name");
            assert_eq!(filter.may_have(&name), passes, "{name}");
        }
    }
}
