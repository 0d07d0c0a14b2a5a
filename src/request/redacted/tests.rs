use smallvec::smallvec;

use super::super::partition::tests::{KEY, SAMPLE, Sample, api_key};
use super::super::partition::{Identified, Missing, partition_id};
use super::*;

fn show(sample: &Sample, partition: &[&[Part]], names: ClientNames) -> String {
    let choices = partition.iter().map(|parts| Choice(parts.to_vec().into()));
    let partition = Partition(choices.collect());
    sample.with(|facts| redacted(&KEY, &partition, facts, names).to_string())
}

/// Replaces runs of eight hex digits that end a value.
fn without_digests(text: &str) -> String {
    let mask = |value: &str| {
        let (head, tail) = value.split_at(value.len().saturating_sub(8));
        let is_digest = tail.len() == 8 && tail.bytes().all(|b| b.is_ascii_hexdigit());
        if is_digest {
            format!("{head}#")
        } else {
            value.to_owned()
        }
    };
    text.split(", ").map(mask).collect::<Vec<_>>().join(", ")
}

#[test]
fn clients_are_shown_without_their_secrets() {
    type Row<'t> = (&'t str, &'t Sample, &'t [&'t [Part]], ClientNames, &'t str);
    let keyed = Sample {
        headers: &[("x-api-key", "live_secret")],
        ..SAMPLE
    };
    let odd = Sample {
        headers: &[("x-api-key", "\"\\é\tx")],
        ..SAMPLE
    };
    let v6 = Sample {
        client: "2001:db8::1",
        ..SAMPLE
    };
    let claimed = Sample {
        claims: &[("email", "alice@example.com")],
        ..SAMPLE
    };
    let key: &[Part] = &[api_key()];
    let claim: &[Part] = &[Part::Claim("email".into())];
    let ip: &[Part] = &[Part::Ip];
    let named: &[&[Part]] = &[&[Part::Host], &[Part::Method], &[Part::Route], ip];
    let (short, digest) = (ClientNames::Short, ClientNames::Digest);
    let table: [Row<'_>; 13] = [
        ("v4", &SAMPLE, &[ip], short, "203.0.113.9"),
        ("v6", &v6, &[ip], short, "2001:db8::/64"),
        ("address, digest", &SAMPLE, &[ip], digest, "#"),
        ("key", &keyed, &[key], short, "live~#"),
        ("key, digest", &keyed, &[key], digest, "#"),
        ("odd key", &odd, &[key], short, "????~#"),
        ("claim", &claimed, &[claim], short, "alic~#"),
        ("missing", &SAMPLE, &[key], short, "no header:x-api-key"),
        ("all", &SAMPLE, &[], short, "all"),
        ("path", &SAMPLE, &[&[Part::Path]], short, "/ite~#"),
        (
            "param",
            &SAMPLE,
            &[&[Part::PathParam("id".into())]],
            short,
            "7~#",
        ),
        (
            "choice",
            &SAMPLE,
            &[&[api_key(), Part::Ip]],
            short,
            "ip=203.0.113.9",
        ),
        (
            "compound",
            &SAMPLE,
            named,
            digest,
            "host=a.com, method=GET, route=/items/{id}, ip=#",
        ),
    ];
    for (name, sample, partition, names, expected) in table {
        let text = show(sample, partition, names);
        assert_eq!(without_digests(&text), expected, "{name}");
    }
}

#[test]
fn a_partition_of_one_part_is_shown_by_its_id_as_by_its_digest() {
    let keyed = Sample {
        headers: &[("x-api-key", "live_secret")],
        ..SAMPLE
    };
    for parts in [vec![api_key()], vec![Part::Ip, api_key()]] {
        for names in [ClientNames::Short, ClientNames::Digest] {
            let partition = Partition(smallvec![Choice(parts.clone().into())]);
            keyed.with(|facts| {
                let id = partition_id(&KEY, &partition, Missing::Refuse, facts);
                let Identified::PartitionId(id) = id else {
                    panic!("the request has the part");
                };
                let client = redacted(&KEY, &partition, facts, names);
                assert_eq!(client.identified(id).to_string(), client.to_string());
            });
        }
    }
}

#[test]
fn digests_tell_clients_apart_and_depend_on_the_key() {
    let show = |headers, key: &[u8; 32]| {
        let sample = Sample { headers, ..SAMPLE };
        let partition = Partition(smallvec![Choice(smallvec![api_key()])]);
        sample.with(|facts| redacted(key, &partition, facts, ClientNames::Short).to_string())
    };
    let first = show(&[("x-api-key", "live_1")], &KEY);
    assert_eq!(first, show(&[("x-api-key", "live_1")], &KEY));
    assert_ne!(first, show(&[("x-api-key", "live_2")], &KEY));
    assert_ne!(first, show(&[("x-api-key", "live_1")], &[8; 32]));
}

#[test]
fn address_is_shown_the_same_behind_others() {
    let [a, b] = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|address| Some(IpAddr::from(address)));
    let mut latest = LatestAddress::default();
    for (key, address, names) in [
        (&KEY, a, ClientNames::Short),
        (&KEY, a, ClientNames::Short),
        (&KEY, None, ClientNames::Short),
        (&KEY, b, ClientNames::Short),
        (&KEY, b, ClientNames::Digest),
        (&[8; 32], b, ClientNames::Digest),
        (&[8; 32], a, ClientNames::Digest),
    ] {
        let expected = redacted_address(key, address, names).to_string();
        assert_eq!(*latest.redacted(key, address, names), *expected);
    }
}
