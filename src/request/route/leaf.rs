//! The rules of one path, most specific first.
//!
//! Usually few rules share a path, and they are tried one by one. If many do, they mostly differ in the value of a
//! header, such as a tenant's. Each rule is then indexed by the rarest value that it asks for, and a lookup tries the
//! rules whose value the request has and those that ask for no value.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::super::only_line::only_line;
use super::header_match::HeaderMatch;
use super::rank::{self, RankWithinPath};
use super::rule::{Rule, Tie};

/// The rules of one path, by index.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// The rules, most specific first.
    rules: SmallVec<[LeafRule; 1]>,
    index_by_header: Option<Box<HeaderIndex>>,
}

/// A rule of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafRule {
    pub(super) index: usize,
    /// Whether the rule asks for no more than the path, so that nothing else need be compared.
    pub(super) takes_every_request: bool,
}

/// Positions in [`Leaf::rules`] by the header's value that the rules ask for.
#[derive(Debug, Default)]
struct HeaderIndex {
    by_header: Vec<(HeaderName, ByValue)>,
    /// Positions of rules that ask for no value.
    unindexed: Vec<usize>,
}

/// Positions of rules by the value that they ask for in one header.
type ByValue = HashMap<Box<[u8]>, Vec<usize>>;

/// A header and the value that a rule asks for.
type AskedHeader<'r> = (&'r HeaderName, &'r str);

impl Leaf {
    pub(super) fn push(&mut self, rule: usize) {
        self.rules.push(LeafRule {
            index: rule,
            takes_every_request: false,
        });
    }

    /// Sorts the rules once all have been added; adds their ties to `ties`.
    pub(super) fn settle(
        &mut self,
        rules: &[Rule],
        ties: &mut Vec<Tie>,
        takes_every_request: impl Fn(&Rule) -> bool,
    ) {
        let rank = |rule: &LeafRule| RankWithinPath::of(&rules[rule.index]);
        self.rules.sort_by_key(rank);
        for peers in self.rules.chunk_by(|a, b| rank(a) == rank(b)) {
            ties.extend(self::ties(rules, peers));
        }
        for rule in &mut self.rules {
            rule.takes_every_request = takes_every_request(&rules[rule.index]);
        }
        if self.rules.len() > TRIED_MAX {
            self.index_by_header = Some(Box::new(HeaderIndex::new(rules, &self.rules)));
        }
    }

    /// Tries the rules that a request with these headers can match, in order, until one answers.
    pub(super) fn find<T>(
        &self,
        headers: &HeaderMap,
        mut try_rule: impl FnMut(&LeafRule) -> Option<T>,
    ) -> Option<T> {
        match &self.index_by_header {
            None => self.rules.iter().find_map(try_rule),
            Some(index_by_header) => {
                let places = index_by_header.places(headers);
                places.iter().find_map(|&at| try_rule(&self.rules[at]))
            }
        }
    }
}

impl HeaderIndex {
    fn new(rules: &[Rule], leaf: &[LeafRule]) -> Self {
        let mut askers: HashMap<AskedHeader<'_>, usize> = HashMap::new();
        for asked in leaf.iter().flat_map(|rule| asked(&rules[rule.index])) {
            *askers.entry(asked).or_default() += 1;
        }
        let mut by_header: HashMap<&HeaderName, ByValue> = HashMap::new();
        let mut unindexed = Vec::new();
        for (place, rule) in leaf.iter().enumerate() {
            match asked(&rules[rule.index]).min_by_key(|asked| askers[asked]) {
                None => unindexed.push(place),
                Some((name, value)) => by_header
                    .entry(name)
                    .or_default()
                    .entry(value.as_bytes().into())
                    .or_default()
                    .push(place),
            }
        }
        let by_header = by_header.into_iter();
        Self {
            by_header: by_header.map(|(name, of)| (name.clone(), of)).collect(),
            unindexed,
        }
    }

    fn places(&self, headers: &HeaderMap) -> SmallVec<[usize; 16]> {
        let mut places = SmallVec::from_slice(&self.unindexed);
        for (name, by_value) in &self.by_header {
            let value = only_line(headers, name).map(HeaderValue::as_bytes);
            if let Some(filed) = value.and_then(|value| by_value.get(value)) {
                places.extend_from_slice(filed);
            }
        }
        places.sort_unstable();
        places
    }
}

/// Whether a request has a header with a value that `asked` matches. A header with several lines matches only
/// [`HeaderMatch::Any`], so no request has two values.
pub(super) fn has_header(headers: &HeaderMap, name: &HeaderName, asked: &HeaderMatch) -> bool {
    match asked {
        HeaderMatch::Any => headers.contains_key(name),
        HeaderMatch::Value(_) | HeaderMatch::Regex(_) => {
            only_line(headers, name).is_some_and(|line| asked.takes(line.as_bytes()))
        }
    }
}

/// Yields the headers for which a rule asks for a certain value, each with that value.
fn asked(rule: &Rule) -> impl Iterator<Item = AskedHeader<'_>> {
    (rule.headers.iter()).filter_map(|(name, asked)| Some((name, asked.value()?)))
}

/// Takes rules of equal rank, and pairs each with the first earlier rule that it ties with.
fn ties(rules: &[Rule], peers: &[LeafRule]) -> Vec<Tie> {
    let mut before = Before::default();
    let mut ties = Vec::new();
    for LeafRule { index: second, .. } in peers.iter().copied() {
        let rule = &rules[second];
        let other = (before.near(rule).iter()).find(|&&first| rank::ties(&rules[first], rule));
        ties.extend(other.map(|&first| Tie { first, second }));
        before.push(rule, second);
    }
    ties
}

/// The earlier rules that the next one is compared with.
#[derive(Default)]
struct Before<'r> {
    all: Vec<usize>,
    asking: HashMap<AskedHeader<'r>, Vec<usize>>,
    /// How many rules ask for a certain value of a header.
    askers: HashMap<&'r HeaderName, usize>,
}

impl<'r> Before<'r> {
    fn push(&mut self, rule: &'r Rule, index: usize) {
        self.all.push(index);
        for asked in asked(rule) {
            self.asking.entry(asked).or_default().push(index);
            *self.askers.entry(asked.0).or_default() += 1;
        }
    }

    /// Returns the earlier rules that `rule` can tie with: if all ask for a value of one header, only those that ask
    /// for the same one.
    fn near<'b>(&'b self, rule: &'b Rule) -> &'b [usize] {
        let of_all = |(name, _): &AskedHeader<'_>| self.askers.get(*name) == Some(&self.all.len());
        let mut nearest = self.all.as_slice();
        for asked in asked(rule).filter(of_all) {
            let asking = self.asking.get(&asked).map_or(&[][..], Vec::as_slice);
            if asking.len() < nearest.len() {
                nearest = asking;
            }
        }
        nearest
    }
}

/// Most rules of one path that are tried one by one, without an index.
const TRIED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::PathPattern;
    use super::*;

    fn rule(headers: &[(&'static str, Option<String>)]) -> Rule {
        let asked = |value: &Option<String>| match value {
            Some(value) => HeaderMatch::parse(value).expect("good"),
            None => HeaderMatch::Any,
        };
        Rule {
            path: PathPattern::parse("/a").expect("good pattern"),
            host: None,
            methods: Vec::new(),
            headers: (headers.iter())
                .map(|(name, value)| (HeaderName::from_static(name), asked(value)))
                .collect(),
            case_insensitive: false,
        }
    }

    fn leaf(rules: &[Rule]) -> (Leaf, Vec<Tie>) {
        let (mut leaf, mut ties) = (Leaf::default(), Vec::new());
        (0..rules.len()).for_each(|index| leaf.push(index));
        leaf.settle(rules, &mut ties, |_| false);
        (leaf, ties)
    }

    /// Returns the rules that are tried for a request with these headers.
    fn tried(leaf: &Leaf, headers: &[(&'static str, &'static str)]) -> Vec<usize> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let mut tried = Vec::new();
        leaf.find(&map, |rule| -> Option<()> {
            tried.push(rule.index);
            None
        });
        tried
    }

    #[test]
    fn a_lookup_tries_the_rules_of_its_values_only() {
        let mut rules: Vec<Rule> = (0..1_000)
            .map(|at| {
                let version = ("x-version", Some("2".to_owned()));
                rule(&[version, ("x-tenant", Some(format!("t{at}")))])
            })
            .collect();
        rules.push(rule(&[("x-tenant", Some("t7".to_owned()))]));
        rules.push(rule(&[("x-tenant", None)]));
        rules.push(rule(&[]));
        let (leaf, ties) = leaf(&rules);
        // The last but one asks for a header of any value, so it ties with the one before it.
        let tie = Tie {
            first: 1_000,
            second: 1_001,
        };
        assert_eq!(ties, [tie]);
        let version = ("x-version", "2");
        for (headers, expected) in [
            (
                &[version, ("x-tenant", "t7")][..],
                &[7, 1_000, 1_001, 1_002][..],
            ),
            (&[version, ("x-tenant", "t999")], &[999, 1_001, 1_002]),
            (&[version, ("x-tenant", "t1000")], &[1_001, 1_002]),
            (&[("x-tenant", "t7"), ("x-tenant", "t8")], &[1_001, 1_002]),
            (&[], &[1_001, 1_002]),
        ] {
            assert_eq!(tried(&leaf, headers), expected, "{headers:?}");
        }
    }

    #[test]
    fn of_many_rules_told_apart_by_a_value_those_that_share_it_tie() {
        let rules: Vec<Rule> = (0..1_000)
            .map(|at| rule(&[("x-tenant", Some(format!("t{}", at % 998)))]))
            .collect();
        let ties = leaf(&rules).1;
        let tie = |first, second| Tie { first, second };
        assert_eq!(ties, [tie(0, 998), tie(1, 999)]);
    }
}
