//! Nested prefixes, such as globs and networks: finds those that a value begins with.

/// The first bits of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Prefix {
    /// The bytes that hold the bits; unused bits of the last byte are zero.
    pub(super) bytes: Box<[u8]>,
    /// How many bits of `bytes` count.
    pub(super) bits: usize,
}

/// Prefixes in order, each with the longest other one that contains it.
///
/// In sorted order, everything between a prefix and a value that begins with it begins with that prefix too. So each
/// prefix of a value is, or contains, the last prefix that does not sort after the value. A lookup is a binary search
/// for that one, and then one step for each prefix that contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefixes(Box<[Nested]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Nested {
    prefix: Prefix,
    /// The index of the longest other prefix that contains this one, or [`NONE`].
    outer: u32,
    /// The node or pattern that the prefix leads to.
    leads_to: u32,
}

impl Prefixes {
    /// Sorts prefixes, no two of which may be equal.
    pub(super) fn new(mut prefixes: Vec<(Prefix, u32)>) -> Self {
        prefixes.sort_unstable();
        let mut nested: Vec<Nested> = Vec::with_capacity(prefixes.len());
        let mut open: Vec<u32> = Vec::new();
        for (prefix, leads_to) in prefixes {
            let contains = |index: &u32| {
                let outer = &nested[*index as usize].prefix;
                common_bits(&outer.bytes, &prefix.bytes).min(prefix.bits) >= outer.bits
            };
            while open.last().is_some_and(|last| !contains(last)) {
                open.pop();
            }
            let outer = open.last().copied().unwrap_or(NONE);
            open.push(u32::try_from(nested.len()).expect("a file has fewer than 2^32 patterns"));
            nested.push(Nested {
                prefix,
                outer,
                leads_to,
            });
        }
        Self(nested.into())
    }

    /// Yields what a value's prefixes lead to, the longest first; the first `bits` of the value count.
    pub(super) fn of(&self, value: &[u8], bits: usize) -> impl Iterator<Item = u32> {
        let behind = self.0.partition_point(|one| *one.prefix.bytes <= *value);
        let last = behind.checked_sub(1).map(|last| &self.0[last]);
        let common = last.map_or(0, |last| common_bits(&last.prefix.bytes, value).min(bits));
        let outer = |one: &&Nested| self.0.get(one.outer as usize);
        std::iter::successors(last, outer)
            .skip_while(move |one| one.prefix.bits > common)
            .map(|one| one.leads_to)
    }
}

/// Counts the leading bits that two texts share.
fn common_bits(one: &[u8], other: &[u8]) -> usize {
    let differ = one.iter().zip(other).position(|(a, b)| a != b);
    match differ {
        Some(at) => 8 * at + (one[at] ^ other[at]).leading_zeros() as usize,
        None => 8 * one.len().min(other.len()),
    }
}

/// Stands for no prefix; it is larger than any index.
const NONE: u32 = u32::MAX;
