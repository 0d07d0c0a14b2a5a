//! Tests of partitions, and a sample request for these and other tests, which each change one thing of it.

use super::super::route::{Lookup, PathPattern, Rule};
use super::*;
use http::HeaderValue;

pub(in crate::request) const KEY: [u8; 32] = [7; 32];

/// A sample request; each test changes one thing of it.
#[derive(Clone)]
pub(in crate::request) struct Sample {
    pub(in crate::request) client: &'static str,
    pub(in crate::request) prefixes: ClientPrefixes,
    pub(in crate::request) headers: &'static [(&'static str, &'static str)],
    pub(in crate::request) host: &'static str,
    pub(in crate::request) method: Method,
    pub(in crate::request) path: &'static str,
    pub(in crate::request) query: &'static str,
    pub(in crate::request) claims: &'static [(&'static str, &'static str)],
    pub(in crate::request) client_cert: Option<&'static str>,
    pub(in crate::request) case_insensitive: bool,
}

pub(in crate::request) const SAMPLE: Sample = Sample {
    client: "203.0.113.9",
    prefixes: ClientPrefixes { ipv4: 32, ipv6: 64 },
    headers: &[],
    host: "a.com",
    method: Method::GET,
    path: "/items/7",
    query: "",
    claims: &[],
    client_cert: None,
    case_insensitive: false,
};

impl Sample {
    pub(in crate::request) fn with<T>(&self, run: impl FnOnce(&Facts<'_>) -> T) -> T {
        let rule = Rule {
            path: PathPattern::parse("/items/{id}").expect("good pattern"),
            host: None,
            methods: Vec::new(),
            headers: Vec::new(),
            case_insensitive: self.case_insensitive,
        };
        let router = Router::new(vec![rule]).expect("one rule ties with none");
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("good value");
            headers.append(*name, value);
        }
        let Lookup::Found(found) = router.find(self.host, &self.method, self.path, &headers) else {
            panic!("{} has no route", self.path)
        };
        let claims = TokenClaims::of(self.claims);
        run(&Facts {
            client: Some(self.client.parse().expect("good address")),
            prefixes: self.prefixes,
            headers: &headers,
            host: self.host,
            method: &self.method,
            route_name: "/items/{id}",
            path: self.path,
            query: Some(self.query),
            claims: Some(&claims),
            client_cert: self.client_cert,
            found: &found,
            router: &router,
        })
    }

    fn partition_id(&self, partition: &[&[Part]], missing: Missing) -> Identified {
        let partition = made_of(partition);
        self.with(|facts| partition_id(&KEY, &partition, missing, facts))
    }
}

fn made_of(choices: &[&[Part]]) -> Partition {
    let choices = choices.iter().map(|parts| Choice(parts.to_vec().into()));
    Partition(choices.collect())
}

pub(in crate::request) fn api_key() -> Part {
    Part::Header(HeaderName::from_static("x-api-key"))
}

fn with_keys(headers: &'static [(&'static str, &'static str)]) -> Sample {
    Sample { headers, ..SAMPLE }
}

/// Asserts that two requests share a quota, or do not, if `part` is the partition.
fn assert_shared(name: &str, part: &Part, a: &Sample, b: &Sample, shared: bool) {
    let partition_id =
        |sample: &Sample| sample.partition_id(&[std::slice::from_ref(part)], Missing::Refuse);
    assert!(
        matches!(partition_id(a), Identified::PartitionId(_)),
        "{name}"
    );
    assert_eq!(partition_id(a) == partition_id(b), shared, "{name}");
}

#[test]
fn addresses_of_one_network_share_a_partition_id() {
    for (name, a, b, shared) in [
        ("same", ("203.0.113.9", 64), ("203.0.113.9", 64), true),
        (
            "mapped",
            ("203.0.113.9", 64),
            ("::ffff:203.0.113.9", 64),
            true,
        ),
        ("other", ("203.0.113.9", 64), ("203.0.113.8", 64), false),
        ("/24", ("203.0.113.9", 24), ("203.0.113.200", 24), true),
        ("other /24", ("203.0.113.9", 24), ("203.0.112.9", 24), false),
        ("/32", ("203.0.113.0", 24), ("203.0.113.0", 32), false),
        ("/64", ("2001:db8::1", 64), ("2001:db8::ffff:1", 64), true),
        (
            "other /64",
            ("2001:db8::1", 64),
            ("2001:db8:0:1::1", 64),
            false,
        ),
        ("/56", ("2001:db8::1", 56), ("2001:db8:0:1::1", 56), true),
        ("/128", ("2001:db8::1", 128), ("2001:db8::2", 128), false),
        (
            "other prefix",
            ("2001:db8::1", 64),
            ("2001:db8::1", 56),
            false,
        ),
    ] {
        let client = |(client, prefix): (_, u8)| Sample {
            client,
            prefixes: ClientPrefixes {
                ipv4: prefix.min(32),
                ipv6: prefix,
            },
            ..SAMPLE
        };
        assert_shared(name, &Part::Ip, &client(a), &client(b), shared);
    }
}

#[test]
fn remembered_partition_id_is_the_one_that_would_be_digested() {
    let by_address: &[&[Part]] = &[&[Part::Ip]];
    let by_both: &[&[Part]] = &[&[Part::Ip], &[Part::Host]];
    let by_key_or_address: &[&[Part]] = &[&[api_key(), Part::Ip]];
    let keyed = with_keys(&[("x-api-key", "k")]);
    let (other, narrow) = (
        Sample {
            client: "2001:db8::1",
            ..SAMPLE
        },
        Sample {
            client: "2001:db8::1",
            prefixes: ClientPrefixes { ipv4: 32, ipv6: 56 },
            ..SAMPLE
        },
    );
    let mut latest = LatestPartition::default();
    for key in [KEY, [8; 32], KEY] {
        for sample in [&SAMPLE, &SAMPLE, &other, &narrow, &SAMPLE, &keyed] {
            for partition in [by_address, by_both, by_key_or_address, &[]] {
                let partition = made_of(partition);
                let (remembered, digested) = sample.with(|facts| {
                    let remembered = latest.partition_id(&key, &partition, Missing::Refuse, facts);
                    (
                        remembered,
                        partition_id(&key, &partition, Missing::Refuse, facts),
                    )
                });
                assert_eq!(remembered, digested, "{partition:?}");
            }
        }
    }
}

#[test]
fn one_value_in_a_cookie_a_parameter_and_a_claim_is_three_clients() {
    let sample = Sample {
        headers: &[("cookie", "key=x")],
        query: "key=x",
        claims: &[("key", "x")],
        ..SAMPLE
    };
    let claim = Part::Claim("key".into());
    let other = Sample {
        claims: &[("key", "y")],
        ..SAMPLE
    };
    assert_shared("other claim", &claim, &sample, &other, false);
    let parts = [Part::Cookie("key".into()), Part::Query("key".into()), claim];
    let ids = parts.map(|part| sample.partition_id(&[&[part]], Missing::Refuse));
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[..index].contains(id), "one value by three parts");
    }
}

#[test]
fn the_alternative_taken_is_part_of_the_partition_id() {
    let either: &[&[Part]] = &[&[api_key(), Part::Host]];
    let keyed = with_keys(&[("x-api-key", "a.com")]);
    let by_key = keyed.partition_id(either, Missing::Refuse);
    let by_host = SAMPLE.partition_id(either, Missing::Refuse);
    assert_ne!(by_key, by_host, "the same text names another client");
    assert_eq!(by_key, keyed.partition_id(&[&[api_key()]], Missing::Refuse));
    assert_eq!(
        by_host,
        SAMPLE.partition_id(&[&[Part::Host]], Missing::Refuse)
    );
}
