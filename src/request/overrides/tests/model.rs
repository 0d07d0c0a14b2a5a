//! Compares the tree with a model of overrides that looks at every pattern.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::super::partition::tests::{SAMPLE, Sample};
use super::super::super::partition::{Choice, Part, Partition};
use super::super::{Pattern, Patterns};
use super::{found_by, header, part_pattern};

/// A partition, patterns for it, and a request.
#[derive(Clone, Debug)]
struct Case {
    /// The items of the partition, each a `kind` of [`item`].
    kinds: Vec<usize>,
    patterns: Vec<Written>,
    headers: [Option<usize>; 3],
    id: usize,
    client: usize,
    folds: bool,
}

/// What a pattern asks of each item: nothing, or an alternative and a text.
type Written = Vec<Option<(usize, String)>>;

fn item(kind: usize) -> Vec<Part> {
    match kind {
        0 => vec![header("x-a"), header("x-b")],
        ID => vec![Part::PathParam("id".into())],
        2 => vec![header("x-c")],
        _ => vec![Part::Ip],
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let kinds = prop::sample::subsequence(vec![0, ID, 2, IP], 1..=3).prop_shuffle();
    kinds.prop_flat_map(|kinds| {
        let said = prop::option::weighted(0.8, (0..2_usize, 0..NETWORKS.len(), any::<bool>()));
        let patterns = vec(vec(said, kinds.len()), 1..12);
        let headers = prop::array::uniform3(prop::option::weighted(0.8, 0..WORDS.len()));
        let rest = (0..WORDS.len(), 0..CLIENTS.len(), any::<bool>());
        (patterns, headers, rest).prop_map(move |(patterns, headers, rest)| {
            let written = |pattern: Vec<Option<(usize, usize, bool)>>| {
                let items = pattern.into_iter().zip(&kinds);
                let items = items.map(|(said, kind)| {
                    let (alternative, word, is_glob) = said?;
                    Some((alternative % item(*kind).len(), text(*kind, word, is_glob)))
                });
                items.collect()
            };
            Case {
                kinds: kinds.clone(),
                patterns: patterns.into_iter().map(written).collect(),
                headers,
                id: rest.0,
                client: rest.1,
                folds: rest.2,
            }
        })
    })
}

fn text(kind: usize, word: usize, is_glob: bool) -> String {
    match kind {
        IP => NETWORKS[word].to_owned(),
        _ if is_glob => format!("{}*", WORDS.get(word).unwrap_or(&"")),
        _ => WORDS[word % WORDS.len()].to_owned(),
    }
}

impl Case {
    fn partition(&self) -> Partition {
        Partition(
            self.kinds
                .iter()
                .map(|kind| Choice(item(*kind).into()))
                .collect(),
        )
    }

    fn built(&self, partition: &Partition) -> Option<Patterns> {
        let pattern = |written: &Written| -> Pattern {
            let items = written.iter().enumerate();
            let items = items.map(|(item, said)| {
                let (alternative, text) = said.as_ref()?;
                Some(part_pattern(partition, item, (*alternative, text)))
            });
            items.collect()
        };
        let patterns: Vec<Pattern> = self.patterns.iter().map(pattern).collect();
        Patterns::new(&patterns).ok()
    }

    /// Whether two patterns mean the same on some route.
    fn has_equal(&self) -> bool {
        let spelled = |folds: bool| {
            let pattern = |written: &Written| -> Written {
                let items = written.iter().zip(&self.kinds);
                let items = items.map(|(said, kind)| {
                    let (alternative, text) = said.clone()?;
                    Some((alternative, folded(*kind, &text, folds)))
                });
                items.collect()
            };
            self.patterns
                .iter()
                .map(pattern)
                .collect::<HashSet<_>>()
                .len()
        };
        spelled(false).min(spelled(true)) < self.patterns.len()
    }

    /// Returns the alternative and the value that the request has for each item.
    fn values(&self) -> Option<Vec<(usize, String)>> {
        let header = |at: usize| self.headers[at].map(|word| WORDS[word].to_owned());
        let value = |kind: &usize| match *kind {
            0 => header(0)
                .map(|header| (0, header))
                .or(header(1).map(|header| (1, header))),
            ID => Some((0, WORDS[self.id].to_owned())),
            2 => header(2).map(|header| (0, header)),
            _ => Some((0, CLIENTS[self.client].to_owned())),
        };
        self.kinds.iter().map(value).collect()
    }

    /// Looks at every pattern, and returns the most specific one that matches.
    fn scan(&self) -> Option<usize> {
        let values = self.values()?;
        let rank = |written: &Written| -> Option<Vec<(u8, usize)>> {
            let items = written.iter().zip(&values).zip(&self.kinds);
            let items = items.map(|((said, (present, value)), kind)| match said {
                None => Some((0, 0)),
                Some((alternative, _)) if alternative != present => None,
                Some((_, text)) => specificity(*kind, text, value, self.folds),
            });
            items.collect()
        };
        let patterns = self.patterns.iter().enumerate();
        let ranked = patterns.filter_map(|(index, pattern)| Some((rank(pattern)?, index)));
        ranked.max().map(|(_, index)| index)
    }

    fn sample(&self) -> Sample {
        let names = ["x-a", "x-b", "x-c"].into_iter().zip(self.headers);
        let headers = names.filter_map(|(name, word)| Some((name, WORDS[word?])));
        Sample {
            headers: headers.collect::<Vec<_>>().leak(),
            client: CLIENTS[self.client],
            path: format!("/items/{}", WORDS[self.id]).leak(),
            case_insensitive: self.folds,
            ..SAMPLE
        }
    }
}

fn folded(kind: usize, text: &str, folds: bool) -> String {
    if folds && kind == ID {
        text.to_lowercase()
    } else {
        text.to_owned()
    }
}

/// Returns how specific a pattern's item is for a value; none if it does not match.
fn specificity(kind: usize, text: &str, value: &str, folds: bool) -> Option<(u8, usize)> {
    let (text, value) = (folded(kind, text, folds), folded(kind, value, folds));
    if text == "*" {
        return Some((1, 0));
    }
    if kind == IP {
        let network = text
            .parse()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network: IpNet = network.expect("a network");
        let client: IpAddr = value.parse().expect("an address");
        let bits = if client.is_ipv4() {
            32
        } else {
            SAMPLE.prefixes.ipv6
        };
        let client = IpNet::new(client, bits).expect("few bits").trunc();
        let rank = (1, usize::from(network.prefix_len()) + 1);
        return network.contains(&client).then_some(rank);
    }
    match text.strip_suffix('*') {
        Some(prefix) => value.starts_with(prefix).then_some((1, prefix.len())),
        None => (text == value).then_some((2, 0)),
    }
}

proptest! {
    /// The pattern that is found is the most specific one that matches, item by item; patterns that
    /// mean the same are refused.
    #[test]
    fn a_lookup_finds_what_a_scan_of_all_patterns_finds(case in cases()) {
        let partition = case.partition();
        let built = case.built(&partition);
        prop_assert_eq!(built.is_none(), case.has_equal());
        if let Some(built) = built {
            let found = case.sample().with(|facts| found_by(&built, &partition, facts));
            prop_assert_eq!(found, case.scan());
        }
    }
}

const ID: usize = 1;
const IP: usize = 3;
const WORDS: [&str; 8] = ["a", "A", "ab", "aB", "abb", "b", "ba", "bab"];
const CLIENTS: [&str; 5] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.128.0.1",
    "2001:db8::1",
    "2001:db8:0:1::1",
];
const NETWORKS: [&str; 9] = [
    "10.0.0.1",
    "10.0.0.0/31",
    "10.0.0.0/9",
    "10.128.0.0/9",
    "0.0.0.0/0",
    "2001:db8::/64",
    "2001:db8::/48",
    "2001:db8::1",
    "*",
];
