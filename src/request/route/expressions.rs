//! The expressions of one host, tried in file order.
//!
//! If there are many, each expression is indexed by a text that every path it matches contains: the
//! one that it shares with the fewest others. One pass over the path finds the texts in it, and
//! only the expressions with those texts are tried. So the cost of a lookup grows with the path and
//! not with the file, except for expressions that have no such text.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use smallvec::{SmallVec, smallvec};

use super::pattern::PathShape;
use super::regex::PathRegex;
use super::rule::Rule;

/// The expressions of one host.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    /// Indices of their rules, in file order.
    all: Vec<usize>,
    index_by_text: Option<Box<TextIndex>>,
}

/// Finds positions in [`Expressions::all`] by the texts that a path contains.
#[derive(Debug)]
struct TextIndex {
    texts: AhoCorasick,
    by_text: Vec<Vec<usize>>,
    /// Expressions that have no text that every match contains.
    unindexed: Vec<usize>,
}

impl Expressions {
    /// Adds a rule of this host whose path is an expression.
    pub(super) fn push(&mut self, rule: usize) {
        self.all.push(rule);
    }

    /// Indexes the expressions once all have been added, if there are many.
    pub(super) fn settle(&mut self, rules: &[Rule]) {
        if self.all.len() > TRIED_MAX {
            self.index_by_text = TextIndex::new(rules, &self.all).map(Box::new);
        }
    }

    /// Tries the rules whose expression matches `path`, in order, until one answers.
    pub(super) fn find<T>(
        &self,
        rules: &[Rule],
        path: &str,
        mut try_rule: impl FnMut(usize) -> Option<T>,
    ) -> Option<T> {
        let mut try_one = |&rule: &usize| {
            let matches = regex(&rules[rule])?.matches_path(path);
            matches.then(|| try_rule(rule)).flatten()
        };
        match &self.index_by_text {
            None => self.all.iter().find_map(try_one),
            Some(index_by_text) => {
                (index_by_text.places(path).iter()).find_map(|&place| try_one(&self.all[place]))
            }
        }
    }
}

impl TextIndex {
    /// Builds the index; none if there are too many texts for one searcher, and then every expression is tried.
    fn new(rules: &[Rule], all: &[usize]) -> Option<Self> {
        let texts = |rule: usize| (regex(&rules[rule]).into_iter()).flat_map(PathRegex::texts);
        let mut sharers: HashMap<&str, usize> = HashMap::new();
        for text in all.iter().flat_map(|&rule| texts(rule)) {
            *sharers.entry(text).or_default() += 1;
        }
        let mut by_text: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut unindexed = Vec::new();
        for (place, &rule) in all.iter().enumerate() {
            // Of two texts shared by equally many expressions, the longer one is likely to be in fewer paths.
            let rarity = |text: &&str| (sharers[text], usize::MAX - text.len());
            match texts(rule).min_by_key(rarity) {
                Some(text) => by_text.entry(text).or_default().push(place),
                None => unindexed.push(place),
            }
        }
        let (texts, by_text): (Vec<_>, Vec<_>) = by_text.into_iter().unzip();
        let searcher = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(texts);
        Some(Self {
            texts: searcher.ok()?,
            by_text,
            unindexed,
        })
    }

    /// Returns the positions of the expressions that can match `path`, in file order.
    fn places(&self, path: &str) -> SmallVec<[usize; 16]> {
        let mut places = SmallVec::from_slice(&self.unindexed);
        let mut seen: SmallVec<[u64; 32]> = smallvec![0; self.by_text.len().div_ceil(64)];
        for found in self.texts.find_overlapping_iter(path) {
            let text = found.pattern().as_usize();
            let (word, bit) = (&mut seen[text / 64], 1 << (text % 64));
            if *word & bit == 0 {
                *word |= bit;
                places.extend_from_slice(&self.by_text[text]);
            }
        }
        places.sort_unstable();
        places
    }
}

fn regex(rule: &Rule) -> Option<&PathRegex> {
    match &rule.path.shape {
        PathShape::Regex(regex) => Some(regex),
        PathShape::Elements(_) => None,
    }
}

/// Most expressions of one host that are tried one by one, without an index.
const TRIED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::{Case, PathPattern};
    use super::*;

    #[test]
    fn a_lookup_tries_the_expressions_whose_text_the_path_has() {
        let texts = (0..200).map(|at| format!("/v[0-9]+/service-{at:03}/.*"));
        let texts = texts.chain(["/v[0-9]+/[a-z]+".to_owned(), ".*/[xyz]".to_owned()]);
        let rules: Vec<Rule> = texts
            .zip([Case::Exact, Case::Any].into_iter().cycle())
            .map(|(text, case)| Rule {
                path: PathPattern::regex(&text, case).expect("good expression"),
                host: None,
                methods: Vec::new(),
                headers: Vec::new(),
                case_insensitive: case == Case::Any,
            })
            .collect();
        let mut expressions = Expressions::default();
        (0..rules.len()).for_each(|index| expressions.push(index));
        expressions.settle(&rules);
        let index_by_text = expressions
            .index_by_text
            .as_deref()
            .expect("there are many");
        // The last two have no text that a path can lack.
        for (path, expected) in [
            ("/v1/service-017/x", &[17, 200, 201][..]),
            ("/V1/SERVICE-199/service-000/", &[0, 199, 200, 201]),
            ("/v1/service-/017", &[200, 201]),
            ("/service-300", &[200, 201]),
        ] {
            assert_eq!(index_by_text.places(path).as_slice(), expected, "{path}");
        }
        let found = |path| expressions.find(&rules, path, Some);
        assert_eq!(found("/v1/service-017/x"), Some(17));
        assert_eq!(found("/V1/service-018/x"), Some(201));
        assert_eq!(found("/V1/service-019/x"), Some(19));
    }
}
