//! Looking for a few fields among all of a head, by their names.

use http::{HeaderMap, HeaderName};
use smallvec::SmallVec;

/// Passes some names, and few others: it looks at their first byte and their length. A spelling with `_` for `-` passes, and
/// the other way round.
#[derive(Clone, Copy, Debug)]
pub struct NameFilter([u32; FIRST_BYTES]);

impl NameFilter {
    /// Passes nothing.
    pub(super) const NONE: Self = Self([0; FIRST_BYTES]);

    /// The same, with all names in some lists.
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

    /// The same, with another name.
    #[must_use]
    pub(super) const fn with(mut self, name: &str) -> Self {
        let name = name.as_bytes();
        self.0[first_byte(name[0])] |= 1 << length(name);
        self
    }

    /// The same, with all names that begin so.
    pub(super) const fn with_prefix(mut self, prefix: &str) -> Self {
        let prefix = prefix.as_bytes();
        self.0[first_byte(prefix[0])] |= u32::MAX << length(prefix);
        self
    }

    /// Says whether a name may be one of them.
    #[inline]
    pub(super) fn may_have(&self, name: &HeaderName) -> bool {
        let name = name.as_str().as_bytes();
        name.first()
            .is_some_and(|first| (self.0[first_byte(*first)] >> length(name)) & 1 == 1)
    }
}

/// Returns the names of the fields that are `unwanted`.
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

const fn first_byte(byte: u8) -> usize {
    let byte = if byte == b'_' { b'-' } else { byte };
    byte as usize % FIRST_BYTES
}

/// All that are longer count as the longest.
const fn length(name: &[u8]) -> usize {
    if name.len() < LENGTH_MAX {
        name.len()
    } else {
        LENGTH_MAX
    }
}

/// As many as there are letters, and more.
const FIRST_BYTES: usize = 32;
const LENGTH_MAX: usize = 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_lists_pass_in_every_spelling_and_most_others_do_not() {
        let long = "x-a-name-that-is-longer-than-the-longest-that-counts";
        let filter = NameFilter::NONE.with_all(&[&["te", "x-real-ip", "-tenant"], &[long]]);
        let filter = filter.with("y_key").with_prefix("tollgate-");
        for (name, passes) in [
            ("te", true),
            ("x-real-ip", true),
            ("x_real_ip", true),
            ("_tenant", true),
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
