use std::fmt::Write as _;

use proptest::prelude::*;
use proptest::sample::select;

use self::Step::{DecodeSlashes, DropHost, Merge, Resolve};
use super::super::{PathPattern, Rule};
use super::*;

fn router(paths: &[&str]) -> Router {
    let rules = paths.iter().map(|path| Rule {
        path: match path.strip_prefix('~') {
            Some(regex) => {
                PathPattern::regex(regex, super::super::Case::Exact).expect("an expression")
            }
            None => PathPattern::parse(path).expect("a path"),
        },
        host: None,
        methods: Vec::new(),
        headers: Vec::new(),
        case_insensitive: false,
    });
    Router::new(rules.collect()).expect("no ties")
}

/// What becomes of a request, judging by its path.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Forwarded,
    Refused,
    NoRoute,
}

/// Treats a path as the gateway does if every route forwards paths as they were sent and keeps encoded slashes.
fn fate(router: &Router, sent: &str) -> Fate {
    let (get, none) = (Method::GET, HeaderMap::new());
    let Ok(path) = path::normalise(sent) else {
        return Fate::Refused;
    };
    let Lookup::Found(found) = router.find("", &get, path.as_str(), &none) else {
        return Fate::NoRoute;
    };
    let hides =
        path.has_encoded_slash() && router.hides_another(&found, "", &get, path.as_str(), &none);
    if path.had_raw() || hides || router.leads_elsewhere(&found, "", &get, &path, &none) {
        Fate::Refused
    } else {
        Fate::Forwarded
    }
}

#[test]
fn an_expression_must_match_every_reading() {
    let router = router(&["~/v[0-9]+/.*", "/*"]);
    for (sent, expected) in [
        ("/v1//a", Fate::Forwarded),
        ("/v1/../v2/a", Fate::Forwarded),
        ("/v1//../v2/a", Fate::Forwarded),
        ("/v1//../x", Fate::Refused),
        ("/x/../v2/a", Fate::Refused),
        ("/v1/../x", Fate::Refused),
        ("/x/../y//z", Fate::Forwarded),
    ] {
        assert_eq!(fate(&router, sent), expected, "{sent}");
    }
}

/// Reads a path like an origin that decodes unreserved characters and then takes these steps.
fn read(sent: &str, steps: &[Step]) -> String {
    let mut segments: Vec<String> = sent[1..].split('/').map(decoded).collect();
    for step in steps {
        match step {
            DecodeSlashes => {
                let text = segments.join("/").replace("%2F", "/").replace("%5C", "/");
                segments = text.split('/').map(str::to_owned).collect();
            }
            DropHost => {
                if segments.len() > 1 && segments[0].is_empty() {
                    let at = segments.iter().position(|segment| !segment.is_empty());
                    segments.drain(..=at.unwrap_or(segments.len() - 1));
                    if segments.is_empty() {
                        segments.push(String::new());
                    }
                }
            }
            Merge => {
                let last = segments.len() - 1;
                let mut at = 0;
                segments.retain(|segment| {
                    at += 1;
                    !segment.is_empty() || at - 1 == last
                });
            }
            Resolve => {
                let mut kept: Vec<String> = Vec::new();
                let last = segments.last().cloned().unwrap_or_default();
                for segment in std::mem::take(&mut segments) {
                    match &*segment {
                        "." => {}
                        ".." => drop(kept.pop()),
                        _ => kept.push(segment),
                    }
                }
                if kept.is_empty() || last == "." || last == ".." {
                    kept.push(String::new());
                }
                segments = kept;
            }
        }
    }
    format!("/{}", segments.join("/"))
}

/// Decodes the unreserved characters of a segment, and puts other escapes in upper case.
fn decoded(segment: &str) -> String {
    let (mut text, mut rest) = (String::new(), segment);
    while let Some(letter) = rest.chars().next() {
        let escape = rest.get(1..3).filter(|_| letter == '%');
        let byte = escape.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                text.push(char::from(byte));
            }
            Some(byte) => write!(text, "%{byte:02X}").expect("memory takes every byte"),
            None => text.push(letter),
        }
        rest = &rest[byte.map_or(letter.len_utf8(), |_| 3)..];
    }
    text
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    DecodeSlashes,
    DropHost,
    Merge,
    Resolve,
}

/// Steps that an origin may take before it looks up a path.
const ORDERS: [&[Step]; 12] = [
    &[],
    &[Merge],
    &[Resolve],
    &[Merge, Resolve],
    &[Resolve, Merge],
    &[DropHost],
    &[DropHost, Merge],
    &[DropHost, Resolve],
    &[DropHost, Merge, Resolve],
    &[DropHost, Resolve, Merge],
    &[Resolve, DropHost],
    &[Resolve, DropHost, Merge],
];

/// Returns the route and the parameters that a reading finds, if any.
fn found(router: &Router, reading: &str) -> Option<(usize, Vec<String>)> {
    match router.find("", &Method::GET, reading, &HeaderMap::new()) {
        Lookup::Found(found) => {
            let params = params(&found, reading).map(str::to_owned).collect();
            Some((usize::from(found.route), params))
        }
        _ => None,
    }
}

const PIECES: [&str; 26] = [
    "/", "/", "/", "/", "//", "/./", "/../", "/..", ".", "..", "%2e", "%2E", "%2F", "%2f", "%5c",
    "a", "b", "%61", "%62", "admin", "pub", "meta", "%7e", ";", "%3b", "+",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// No path that is forwarded as it was sent is another route's, or has other parameters, to an origin that resolves
    /// dot segments, merges slashes, or does both in any order, and may take what follows `//` for a host. If it
    /// decodes slashes first, the path may also have no route, or one that takes the normalised path too.
    #[test]
    fn no_reading_of_a_forwarded_path_leads_elsewhere(
        pieces in prop::collection::vec(select(PIECES.to_vec()), 1..9),
        paths in prop::sample::subsequence(
            vec!["/*", "/{x}", "/{x}/*", "/admin/*", "/pub/{name}", "/pub/{name}/meta", "/a/b", "~/a/[ab].*"],
            1..8,
        ),
    ) {
        let (router, sent) = (router(&paths), format!("/{}", pieces.concat()));
        if fate(&router, &sent) != Fate::Forwarded {
            return Ok(());
        }
        let normal = path::normalise(&sent).expect("it was found good");
        let normal = normal.as_str();
        let decided = found(&router, normal);
        for order in ORDERS {
            let reading = read(&sent, order);
            prop_assert_eq!(&found(&router, &reading), &decided, "{} as {}", sent, reading);
            let reading = read(&sent, &[&[DecodeSlashes], order].concat());
            if let (Some((route, _)), Some((own, _))) = (found(&router, &reading), &decided) {
                let takes_both = router.rules[route].takes_path(normal);
                prop_assert!(route == *own || takes_both, "{} as {}", sent, reading);
            }
        }
    }

    /// A path that is already normal, without encoded slashes, is forwarded.
    #[test]
    fn a_normal_path_without_encoded_slashes_is_never_refused(
        segments in prop::collection::vec("[a-c:;.+]{1,3}|%20|%25|admin", 0..5),
    ) {
        let router = router(&["/{bucket}", "/{bucket}/*", "/admin/*", "/"]);
        let sent = format!("/{}", segments.join("/"));
        if path::normalise(&sent).is_ok_and(|path| path.as_str() == sent) {
            prop_assert_eq!(fate(&router, &sent), Fate::Forwarded);
        }
    }
}
