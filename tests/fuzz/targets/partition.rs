//! Partitions: two requests share a quota exactly if the parts that name them are equal.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HeaderMap;
use http::{HeaderName, Method};
use tollgate::config::display;
use tollgate::config::value::part_choice;
use tollgate::request::path::normalise;
use tollgate::request::route::{Found, Lookup, PathPattern, Router, Rule};
use tollgate::request::{Choice, ClientNames, ClientPrefixes, Missing, Part, Partition, Reads};
use tollgate::request::{
    Facts, Identified, SeenNames, cookie_value, partition_id, query_value, redacted,
};
use tollgate::snapshot::Policy;

use super::{compared, header_map, lines};

/// The input: what a missing part means (`share`, `skip`, `refuse`) and, after a space, the
/// partition's items, separated by commas. Then two requests, separated by a line `--`: address,
/// method, host, and path with its query in one line, and a field on each further one.
pub fn holds(data: &[u8]) {
    let all: Vec<&[u8]> = lines(data).collect();
    let Some((policy, requests)) = all.split_first() else {
        return;
    };
    let Some(policy) = str::from_utf8(policy).ok().and_then(self::policy) else {
        return;
    };
    let requests: Option<Vec<Request>> = requests
        .split(|line| *line == b"--")
        .take(2)
        .map(request)
        .collect();
    let Some(requests) = requests else { return };
    ROUTER.with(|router| {
        let known: Vec<(Identity, Identified)> = requests
            .iter()
            .map(|request| look(router, &policy, request))
            .collect();
        if let [(one, of_one), (other, of_other)] = &known[..] {
            assert_eq!(one == other, of_one == of_other, "{one:?} and {other:?}");
        }
    });
}

/// What names a request's client, part by part.
#[derive(Debug, PartialEq)]
enum Identity {
    Parts(Vec<(Part, Vec<u8>)>),
    Lacks(Choice),
    Skip,
    /// No part of the choice with this index is present.
    Unidentified(usize),
}

#[derive(Debug)]
struct Request {
    client: Option<IpAddr>,
    method: Method,
    host: String,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
}

/// Checks one request, and returns what names its client: as worked out here, and as the gateway says.
fn look(router: &Router, policy: &Policy, request: &Request) -> (Identity, Identified) {
    let Lookup::Found(found) = router.find(
        &request.host,
        &request.method,
        &request.path,
        &request.headers,
    ) else {
        panic!("the last rule matches all");
    };
    let facts = Facts {
        client: request.client,
        prefixes: ClientPrefixes {
            ipv4: 32,
            ipv6: IPV6_PREFIX,
        },
        headers: &request.headers,
        host: &request.host,
        method: &request.method,
        route_name: ROUTES[usize::from(found.route)],
        path: &request.path,
        query: request.query.as_deref(),
        claims: None,
        client_cert: (request.path.len().is_multiple_of(2)).then_some(CLIENT_CERT),
        found: &found,
        router,
    };
    let identity = identity(policy, &facts);
    let identified = partition_id(&KEY, &policy.partition, policy.missing, &facts);
    match (&identity, &identified) {
        (Identity::Skip, Identified::Skip) => {}
        (Identity::Unidentified(lacking), Identified::Unidentified { choice }) => {
            assert_eq!(lacking, choice);
        }
        (Identity::Parts(_) | Identity::Lacks(_), Identified::PartitionId(_)) => {
            assert_ne!(
                partition_id(&[8; 32], &policy.partition, policy.missing, &facts),
                identified,
                "the key counts"
            );
        }
        _ => panic!("{identity:?} is {identified:?}"),
    }
    for names in [ClientNames::Short, ClientNames::Digest] {
        // If a choice has several parts, the text names the one that was taken.
        let text = redacted(&KEY, &policy.partition, &facts, names).to_string();
        let of_file = display::partition(&policy.partition).len();
        let of_client = policy.partition.0.len() * VALUE_BYTES_MAX;
        assert!(text == "all" || text.len() <= of_file + of_client, "{text}");
        let is_named = policy.partition.0.iter().any(|choice| choice.0.len() > 1);
        let text = if is_named {
            text.split_once('=').map_or(&*text, |(_, shown)| shown)
        } else {
            &text
        };
        check_shown(text, &identity, names);
    }

    // The fields that the origin sees name the same client, on a single line.
    let mut joined = request.headers.clone();
    let reads = Reads::of(policy.parts(), None);
    let filter = SeenNames::filter(reads.headers().iter());
    let names = SeenNames::of(&joined, &filter, reads.headers(), |_| false);
    reads.join_lines(&mut joined, names.has_disguises);
    let seen = Facts {
        headers: &joined,
        ..facts
    };
    assert_eq!(
        partition_id(&KEY, &policy.partition, policy.missing, &seen),
        identified
    );
    for name in header_names(&policy.partition) {
        assert!(joined.get_all(name).iter().count() <= 1, "{name}");
        let reads = |other: &&HeaderName| other.as_str().replace('_', "-") == name.as_str();
        let alike = joined
            .keys()
            .filter(reads)
            .filter(|key| *key != name)
            .count();
        assert!(alike == 0 || name.as_str().contains('_'), "{joined:?}");
    }
    (identity, identified)
}

fn check_shown(text: &str, identity: &Identity, names: ClientNames) {
    let is_printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    assert!(text.bytes().all(is_printable), "{text:?}");
    let Identity::Parts(parts) = identity else {
        return;
    };
    let [(part, value)] = &parts[..] else { return };
    let is_secret = !matches!(part, Part::Ip | Part::Host | Part::Method | Part::Route);
    if is_secret {
        let head = text.strip_suffix(|c: char| c.is_ascii_hexdigit());
        assert!(head.is_some(), "{text}");
        let (head, digest) = text.split_at(text.len() - 8);
        assert!(
            digest.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{text}"
        );
        match names {
            ClientNames::Digest => assert_eq!(head, ""),
            ClientNames::Short => {
                let clear = head.strip_suffix('~').expect("a mark before the digest");
                assert!(clear.len() <= 4, "{text}");
                let mut pairs = clear.bytes().zip(value);
                assert!(
                    !value.is_ascii() || pairs.all(|(shown, sent)| shown == *sent || shown == b'?')
                );
            }
        }
    }
}

/// Identifies the client the slow way: every part with its value in full.
fn identity(policy: &Policy, facts: &Facts<'_>) -> Identity {
    let mut parts = Vec::new();
    for (index, choice) in policy.partition.0.iter().enumerate() {
        let present = |part: &Part| Some((part.clone(), value(part, facts)?));
        match choice.0.iter().find_map(present) {
            Some(part) => parts.push(part),
            None => {
                return match policy.missing {
                    Missing::Share => Identity::Lacks(choice.clone()),
                    Missing::Skip => Identity::Skip,
                    Missing::Refuse => Identity::Unidentified(index),
                };
            }
        }
    }
    Identity::Parts(parts)
}

fn value(part: &Part, facts: &Facts<'_>) -> Option<Vec<u8>> {
    let value = match part {
        Part::Ip => match facts.client?.to_canonical() {
            IpAddr::V4(address) => address.to_string().into_bytes(),
            IpAddr::V6(address) => address.octets()[..usize::from(IPV6_PREFIX) / 8].to_vec(),
        },
        Part::Header(name) => {
            let lines = facts.headers.get_all(name).iter();
            let lines = lines.map(|line| line.as_bytes().trim_ascii());
            // Empty lines mean nothing (RFC 9110, section 5.6.1.2).
            let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
            let is_cookie = name == "cookie";
            lines.join(if is_cookie { &b"; "[..] } else { b", " })
        }
        // How these two are read is tested in `named_values`.
        Part::Cookie(name) => cookie_value(facts.headers, name).ok()??.into_owned(),
        Part::Query(name) => query_value(facts.query?, name).ok()??.into_owned(),
        Part::Claim(_) => return None,
        Part::ClientCert => facts.client_cert?.as_bytes().to_vec(),
        Part::Host => facts.host.as_bytes().to_vec(),
        Part::Method => facts.method.as_str().as_bytes().to_vec(),
        Part::Route => facts.route_name.as_bytes().to_vec(),
        Part::Path => {
            let path = compared(facts.path);
            let path = path.strip_suffix('/').unwrap_or(&path);
            let path = if path.is_empty() { "/" } else { path };
            in_case(path, facts).into_bytes()
        }
        Part::PathParam(name) => {
            let value = compared(&param(facts.found, facts.path, name)?);
            in_case(&value, facts).into_bytes()
        }
    };
    (!value.is_empty()).then_some(value)
}

/// Returns the text in lower case if the route ignores case.
fn in_case(text: &str, facts: &Facts<'_>) -> String {
    if ROUTES[usize::from(facts.found.route)].starts_with("/any-case") {
        text.to_ascii_lowercase()
    } else {
        text.to_owned()
    }
}

/// Returns the segment in the place of `{name}` in the route's pattern.
fn param(found: &Found, path: &str, name: &str) -> Option<String> {
    let pattern = ROUTES[usize::from(found.route)].split('/');
    let index = pattern
        .clone()
        .position(|pattern| pattern == format!("{{{name}}}"))?;
    path.split('/').nth(index).map(str::to_owned)
}

fn policy(text: &str) -> Option<Policy> {
    let (missing, items) = text.split_once(' ')?;
    let missing = match missing {
        "share" => Missing::Share,
        "skip" => Missing::Skip,
        "refuse" => Missing::Refuse,
        _ => return None,
    };
    let items = items
        .split(',')
        .take(ITEMS_MAX)
        .filter(|part| !part.is_empty());
    let choices: Result<Vec<Choice>, _> = items.map(part_choice).collect();
    Some(Policy {
        name: Arc::from("p"),
        partition: Partition(choices.ok()?.into()),
        missing,
        mode: None,
        ..Policy::default()
    })
}

fn request(lines: &[&[u8]]) -> Option<Request> {
    let (head, fields) = lines.split_first()?;
    let mut words = str::from_utf8(head).ok()?.split(' ');
    let client = match words.next()? {
        "unix" => None,
        address => Some(address.parse().ok()?),
    };
    let method = words.next()?;
    let (host, target) = (words.next()?, words.next()?);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let path = normalise(path).ok()?;
    Some(Request {
        client,
        method: Method::from_bytes(method.as_bytes()).ok()?,
        host: host.to_ascii_lowercase(),
        path: path.as_str().to_owned(),
        query,
        headers: header_map(fields.iter().copied()),
    })
}

fn header_names(partition: &Partition) -> impl Iterator<Item = &HeaderName> {
    let parts = partition.0.iter().flat_map(|choice| &choice.0);
    parts.filter_map(|part| match part {
        Part::Header(name) => Some(name),
        _ => None,
    })
}

thread_local! {
    static ROUTER: Router = {
        let rules = ROUTES.iter().map(|path| Rule {
            path: PathPattern::parse(path).expect("good pattern"),
            host: None,
            methods: Vec::new(),
            headers: Vec::new(),
            case_insensitive: path.starts_with("/any-case"),
        });
        Router::new(rules.collect()).expect("no ties")
    };
}

/// The digest of a certificate, which requests have whose path is of even length.
const CLIENT_CERT: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const ROUTES: &[&str] = &["/items/{id}", "/any-case/{id}", "/*"];
const KEY: [u8; 32] = [7; 32];
const IPV6_PREFIX: u8 = 64;
/// More bytes than the value of any part has where it is shown.
const VALUE_BYTES_MAX: usize = 280;
const ITEMS_MAX: usize = 6;
