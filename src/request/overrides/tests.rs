//! Tests of overrides: matching by hand, many nested globs, and a model that scans.

mod model;

use std::cell::Cell;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::net::IpAddr;

use http::HeaderName;
use ipnet::IpNet;

use super::super::ClientPrefixes;
use super::super::partition::tests::{KEY, SAMPLE, Sample};
use super::super::partition::{Choice, Facts, Part, Partition, Value};
use super::super::redacted::{ClientNames, redacted};
use super::named::ItemValue;
use super::prefixes::{Prefix, Prefixes};
use super::*;

/// How a test writes one item of a pattern: `None`, or the alternative and a text.
type Written<'t> = Option<(usize, &'t str)>;

fn header(name: &'static str) -> Part {
    Part::Header(HeaderName::from_static(name))
}

fn partition(items: &[&[Part]]) -> Partition {
    Partition(
        items
            .iter()
            .map(|parts| Choice(parts.to_vec().into()))
            .collect(),
    )
}

fn part_pattern(
    partition: &Partition,
    item: usize,
    (alternative, text): (usize, &str),
) -> PartPattern {
    let part = &partition.0[item].0[alternative];
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let pattern = match (part, network) {
        (Part::Ip, Ok(network)) => PartPattern::network(network),
        _ => PartPattern::text(part, text).expect("a good pattern"),
    };
    pattern.of_alternative(alternative)
}

fn patterns(partition: &Partition, written: &[&[Written<'_>]]) -> Vec<Pattern> {
    let pattern = |items: &&[Written<'_>]| {
        let items = items.iter().enumerate();
        let items = items.map(|(item, said)| Some(part_pattern(partition, item, (*said)?)));
        items.collect()
    };
    written.iter().map(pattern).collect()
}

/// Returns the index of the pattern that a request finds.
fn found_by(built: &Patterns, partition: &Partition, facts: &Facts<'_>) -> Option<usize> {
    built.find(&NamedClient::of_request(partition, facts)?)
}

/// Returns which of several one-part patterns a request finds.
fn found<'w>(part: &Part, written: &[&'w str], sample: &Sample) -> Option<&'w str> {
    let partition = partition(&[std::slice::from_ref(part)]);
    let items: Vec<[Written<'_>; 1]> = written.iter().map(|text| [Some((0, *text))]).collect();
    let items: Vec<&[Written<'_>]> = items.iter().map(<[_; 1]>::as_slice).collect();
    let built = Patterns::new(&patterns(&partition, &items)).expect("no two are equal");
    let index = sample.with(|facts| found_by(&built, &partition, facts));
    index.map(|index| written[index])
}

/// Patterns of one part, a request, and the pattern that it should find.
type Row<'t> = (&'t [&'t str], Sample, Option<&'t str>);

fn check(part: &Part, table: &[Row<'_>]) {
    for (written, sample, expected) in table {
        let (headers, client, path) = (sample.headers, sample.client, sample.path);
        let name = format!("{written:?} for {headers:?} from {client} at {path}");
        assert_eq!(found(part, written, sample), *expected, "{name}");
    }
}

fn keyed(headers: &'static [(&'static str, &'static str)]) -> Sample {
    Sample { headers, ..SAMPLE }
}

fn from(client: &'static str) -> Sample {
    Sample { client, ..SAMPLE }
}

#[test]
fn the_longest_prefix_wins_and_a_value_beats_every_glob() {
    let keys: &[&str] = &["live_*", "live_a*", "live_a", "*", "test*"];
    let table = [
        (keys, keyed(&[("x-api-key", "live_a")]), Some("live_a")),
        (keys, keyed(&[("x-api-key", "live_ab")]), Some("live_a*")),
        (keys, keyed(&[("x-api-key", "live_")]), Some("live_*")),
        (keys, keyed(&[("x-api-key", "live")]), Some("*")),
        (keys, keyed(&[("x-api-key", " tester ")]), Some("test*")),
        (keys, keyed(&[("x-api-key", "\u{e9}")]), Some("*")),
        (keys, keyed(&[("x-api-key", "")]), None),
        (keys, SAMPLE, None),
        (
            &["a, b"],
            keyed(&[("x-api-key", "a"), ("x-api-key", "b")]),
            Some("a, b"),
        ),
    ];
    check(&header("x-api-key"), &table);
}

#[test]
fn networks_match_the_addresses_that_clients_count_by() {
    let v4: &[&str] = &[
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.0.1",
        "0.0.0.0/0",
        "::ffff:10.9.0.0/112",
    ];
    let v6: &[&str] = &[
        "2001:db8::/32",
        "2001:db8:1::/64",
        "2001:db8:1::/65",
        "2001:db8:1::",
        "::/0",
    ];
    let whole = Sample {
        prefixes: ClientPrefixes {
            ipv4: 32,
            ipv6: 128,
        },
        ..from("2001:db8:1::")
    };
    let table = [
        (v4, from("10.1.0.1"), Some("10.1.0.1")),
        (v4, from("::ffff:10.1.0.2"), Some("10.1.0.0/16")),
        (v4, from("10.2.0.1"), Some("10.0.0.0/8")),
        (v4, from("10.9.0.1"), Some("::ffff:10.9.0.0/112")),
        (v4, from("9.255.255.255"), Some("0.0.0.0/0")),
        (v4, from("2001:db8::1"), None),
        (&["*"], from("2001:db8::1"), Some("*")),
        // A client is a /64 here, so longer networks match no client.
        (v6, from("2001:db8:1::"), Some("2001:db8:1::/64")),
        (v6, from("2001:db8:2::1"), Some("2001:db8::/32")),
        (v6, from("::1"), Some("::/0")),
        (v6, whole, Some("2001:db8:1::")),
    ];
    check(&Part::Ip, &table);
}

#[test]
fn hosts_certificates_and_paths_match_as_their_partitions_count_them() {
    let named = |host| Sample { host, ..SAMPLE };
    let at = |path, case_insensitive| Sample {
        path,
        case_insensitive,
        ..SAMPLE
    };
    let hosts = [
        (
            &["API.example.com.", "api.*"][..],
            named("api.example.com"),
            Some("API.example.com."),
        ),
        (&["API.*"], named("api.example.org"), Some("API.*")),
    ];
    check(&Part::Host, &hosts);
    let digest = Sample {
        client_cert: Some("ba7816bf"),
        ..SAMPLE
    };
    let printed: Row<'_> = (&["BA:78:16:BF", "ba*"], digest.clone(), Some("BA:78:16:BF"));
    check(
        &Part::ClientCert,
        &[printed, (&["BA:78:*"], digest, Some("BA:78:*"))],
    );
    let path: Row<'_> = (
        &["/items/7/", "/items/*"],
        at("/items/7", false),
        Some("/items/7/"),
    );
    check(&Part::Path, &[path]);
    let ids = [
        (&["A", "a*"][..], at("/items/A", false), Some("A")),
        (&["A", "a*"], at("/items/a", false), Some("a*")),
        (&["A", "a*"], at("/items/a", true), Some("A")),
        (&["x:*"], at("/items/x%3Ay", false), Some("x:*")),
    ];
    check(&Part::PathParam("id".into()), &ids);
}

/// The headers of a request, the index of the pattern that it finds, and how that is shown.
type Compound = (
    &'static [(&'static str, &'static str)],
    Option<usize>,
    &'static str,
);

#[test]
fn earlier_items_decide_and_what_is_left_out_matches_whatever_is_there() {
    let partition = partition(&[&[header("x-tenant")], &[header("x-user"), Part::Ip]]);
    let written: &[&[Written<'_>]] = &[
        &[Some((0, "acme")), Some((0, "joe"))],
        &[Some((0, "acme")), None],
        &[Some((0, "a*")), Some((0, "ann"))],
        &[None, Some((1, "203.0.113.0/24"))],
        &[None, Some((0, "*"))],
    ];
    let built = Patterns::new(&patterns(&partition, written)).expect("no two are equal");
    let table: [Compound; 6] = [
        (
            &[("x-tenant", "acme"), ("x-user", "joe")],
            Some(0),
            "header:x-tenant=acme~#, header:x-user=joe~#",
        ),
        (
            &[("x-tenant", "acme"), ("x-user", "ann")],
            Some(1),
            "header:x-tenant=acme~#",
        ),
        (
            &[("x-tenant", "apex"), ("x-user", "ann")],
            Some(2),
            "header:x-tenant=a*, header:x-user=ann~#",
        ),
        (&[("x-tenant", "zoo")], Some(3), "ip=203.0.113.0/24"),
        (
            &[("x-tenant", "zoo"), ("x-user", "joe")],
            Some(4),
            "header:x-user=*",
        ),
        (&[("x-user", "joe")], None, ""),
    ];
    for (headers, expected, shown) in table {
        let sample = Sample { headers, ..SAMPLE };
        sample.with(|facts| {
            let index = found_by(&built, &partition, facts);
            assert_eq!(index, expected, "{headers:?}");
            let text = index.map(|index| {
                built
                    .shown(index, redacted(&KEY, &partition, facts, ClientNames::Short))
                    .to_string()
            });
            assert_eq!(without_digests(&text.unwrap_or_default()), shown);
        });
    }
}

/// Replaces the eight hex digits after each `~`.
fn without_digests(text: &str) -> String {
    let mut parts = text.split('~');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "~#" + &part[8..])
}

#[test]
fn a_pattern_is_shown_in_clear_unless_it_is_a_clients_value() {
    let keyed = Sample {
        headers: &[("x-api-key", "live_secret")],
        ..SAMPLE
    };
    let partition = partition(&[&[header("x-api-key")]]);
    for (pattern, shown) in [
        (
            PartPattern::text(&header("x-api-key"), "live_secret"),
            "live~#",
        ),
        (PartPattern::text(&header("x-api-key"), "live_*"), "live_*"),
        (
            PartPattern::text(&header("x-api-key"), "live_secret")
                .map(|text| text.in_clear("live\u{1b}é\n")),
            "live???",
        ),
    ] {
        let pattern = vec![Some(pattern.expect("a good pattern"))];
        let built = Patterns::new(&[pattern]).expect("one");
        let text = keyed.with(|facts| {
            built
                .shown(0, redacted(&KEY, &partition, facts, ClientNames::Short))
                .to_string()
        });
        assert_eq!(without_digests(&text), shown);
    }
}

#[test]
fn what_no_request_can_have_is_no_pattern() {
    for (part, text, why) in [
        (header("a"), " ", BadPattern::Empty),
        (header("a"), "a*b", BadPattern::StarInside),
        (header("a"), "**", BadPattern::StarInside),
        (Part::Host, "a b", BadPattern::Host),
        (Part::Host, "a:80", BadPattern::Host),
    ] {
        assert_eq!(PartPattern::text(&part, text), Err(why), "{text}");
    }
}

/// Hashes as usual, and counts the bytes.
#[derive(Default)]
struct Counting(RandomState);

struct CountingHasher(DefaultHasher);

thread_local! {
    static HASHED: Cell<usize> = const { Cell::new(0) };
}

impl BuildHasher for Counting {
    type Hasher = CountingHasher;

    fn build_hasher(&self) -> CountingHasher {
        CountingHasher(self.0.build_hasher())
    }
}

impl Hasher for CountingHasher {
    fn write(&mut self, bytes: &[u8]) {
        HASHED.set(HASHED.get() + bytes.len());
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

#[test]
fn a_lookup_hashes_each_value_once_however_many_nodes_ask_for_it() {
    const NODES: usize = 10_000;
    const LEN: usize = 20_000;
    let glob = |len: usize| {
        let prefix = Prefix {
            bytes: vec![b'a'; len].into(),
            bits: 8 * len,
        };
        let shown = PartPattern::text(&header("a"), "a*").expect("a good pattern");
        Some(PartPattern { prefix, ..shown })
    };
    let said = Some(PartPattern::text(&header("b"), "other").expect("a good pattern"));
    let patterns: Vec<Pattern> = (0..NODES)
        .map(|len| vec![glob(len), said.clone()])
        .collect();
    let tree: OverrideTree<Counting> =
        OverrideTree::new(&patterns, |part| (&*part.prefix.bytes).into())
            .map_err(|equal| equal.len())
            .expect("no two are equal");
    let parts = [header("a"), header("b")];
    let values = [0, 1].map(|at| ItemValue {
        alternative: 0,
        part: &parts[at],
        value: Value::Text(["a", "b"][at].repeat(LEN).into_bytes().into()),
    });
    let keys = values.each_ref().map(|one| OverrideKey::new(one, None));
    HASHED.set(0);
    assert_eq!(tree.find(&keys), None);
    // A node, an alternative and the hash of a value are 16 bytes.
    let most = 2 * (LEN + 16) + NODES * 16;
    let hashed = HASHED.get();
    assert!((NODES * 16..=most).contains(&hashed), "{hashed}");
}

/// Each step of a lookup is a glob that the value begins with, or one more than it begins with.
#[test]
fn ten_thousand_nested_globs_are_found_one_by_one() {
    let globs: Vec<(Prefix, u32)> = (0..10_000)
        .map(|len| {
            let bytes = vec![b'a'; len as usize].into();
            (
                Prefix {
                    bytes,
                    bits: 8 * len as usize,
                },
                len,
            )
        })
        .collect();
    let nested = Prefixes::new(globs);
    for (value, longest) in [
        ("a".repeat(20_000), 9_999),
        ("a".repeat(5_000) + "b", 5_000),
        ("a".repeat(5_000) + "A", 5_000),
        ("b".to_owned(), 0),
        (String::new(), 0),
    ] {
        let mut all = nested.of(value.as_bytes(), 8 * value.len());
        assert_eq!(all.next(), Some(longest), "{}", value.len());
        assert_eq!(all.count(), longest as usize);
    }
}
