//! Whatever target a client sends, the gateway matches the path that the origins read.

use std::sync::{Arc, Mutex, Weak};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config as Settings, TestCaseError, TestRunner};
use tollgate::request::path::normalise;

use super::{planted, quiet};
use crate::support::ratelimit::state;
use crate::support::{Answer, Client, Garden, Reading, Running, start};

/// Paths that have routes of their own: as they are forwarded, and as they are decoded.
const RESOURCES: [(&str, &str); 7] = [
    ("/login", "/login"),
    ("/a/b", "/a/b"),
    ("/a:b", "/a:b"),
    ("/a%20b", "/a b"),
    ("/%C3%A9/login", "/é/login"),
    ("/100%25", "/100%"),
    ("/.a/..b", "/.a/..b"),
];

/// Pieces of hostile paths.
const PIECES: [&str; 62] = [
    "/",
    "/",
    "/",
    "//",
    "/./",
    "/../",
    "/x/../",
    ".",
    "..",
    "%2e",
    "%2E",
    "%2f",
    "%2F",
    "%5c",
    "\\",
    "%00",
    "login",
    "%6cogin",
    "l%6Fgin",
    "LOGIN",
    "a",
    "b",
    "%61",
    "%41",
    ":",
    "%3a",
    "%3A",
    ";",
    ";x=y",
    "%3b",
    "?",
    "#",
    "%23",
    "%3f",
    "%25",
    "%2525",
    "%252e%252e",
    "%252f",
    "%20",
    "%09",
    "%0a",
    "é",
    "%c3%a9",
    "%C3%A9",
    "%c0%ae",
    "%c0%af",
    "\u{ff0f}",
    "|",
    "\"",
    "<",
    "`",
    "?>",
    "?\u{e9}",
    "100",
    "%zz",
    "%",
    "+",
    "@",
    "//garden.test",
    "*",
    "~",
    "%7e",
];

/// Generates a mix of pieces, or one of the resources with some of its bytes spelled differently.
fn target() -> impl Strategy<Value = String> {
    let mix = prop::collection::vec(select(PIECES.to_vec()), 0..9);
    let mix = mix.prop_map(|pieces| format!("/{}", pieces.concat()));
    let disguise = (
        select(RESOURCES.map(|(_, decoded)| decoded).to_vec()),
        prop::collection::vec(0..8_u8, 16),
        select(vec![
            "", "", "", "/", "/.", "?x", "#f", ";a", "%20", "%2f", "/x/..", "/x%2f..",
        ]),
    )
        .prop_map(|(resource, dice, end)| disguised(resource, &dice) + end);
    // An origin that parses the target as a URL reads a host here.
    let host = select(vec!["", "", "", "", "//garden.test", "/.//a"]);
    (host, prop_oneof![mix, disguise]).prop_map(|(host, path)| host.to_owned() + &path)
}

/// Spells a path differently: each die decides on one of its bytes.
fn disguised(path: &str, dice: &[u8]) -> String {
    let bytes = path.bytes().zip(dice.iter().cycle());
    let spelled: Vec<_> = bytes.map(|(byte, &die)| spelled(byte, die)).collect();
    let text = spelled.concat();
    if text.starts_with('/') {
        text
    } else {
        format!("/{text}")
    }
}

fn spelled(byte: u8, die: u8) -> String {
    match (byte, die) {
        (b'/', 0) => "//".to_owned(),
        (b'/', 1) => "/./".to_owned(),
        (b'/', 2) => "/x/%2e./".to_owned(),
        (b'/', 3) => "%2F".to_owned(),
        (b'/', 4) => "%5C".to_owned(),
        (b'/', _) => "/".to_owned(),
        (_, 0) => format!("%{byte:02x}"),
        (_, 1) | (b' ' | b'%' | 0x80.., _) => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    }
}

/// Sends all targets to one origin after the other, and passes what each reads to `check`.
fn compare(
    garden: &Garden,
    running: &Running,
    targets: &[String],
    check: impl Fn(&str, Option<&str>, &Reading) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    for (name, _) in &garden.origins {
        let mut client = Client::connect(running.public);
        for target in targets {
            let answer = super::ask(&mut client, name, target);
            if answer.says_close() {
                client = Client::connect(running.public);
            }
            if answer.status != 200 {
                prop_assert_eq!(answer.status, 400, "{} at {}", target, name);
                continue;
            }
            let readings = garden.readings(name, &answer.body);
            // Origins that cut off parameters have to be declared to the gateway in another way.
            for reading in readings
                .iter()
                .filter(|reading| reading.by != "python-urlparse")
            {
                check(target, matched(&answer), reading)?;
            }
        }
    }
    Ok(())
}

/// Returns the path of the route that matched, if it is one of the resources.
fn matched(answer: &Answer) -> Option<&'static str> {
    let items = state(answer);
    let number = items.first()?.0.strip_prefix("resource-")?;
    let number: usize = number.parse().expect("a resource's number");
    Some(RESOURCES[number].0)
}

/// Returns the resource that an origin means by `path`, if it reads paths as in `reading`.
fn meant(reading: &Reading, path: &str) -> Option<&'static str> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_it = |(written, decoded): &&(&str, &str)| {
        path == if reading.is_decoded() {
            *decoded
        } else {
            *written
        }
    };
    let resource = RESOURCES.iter().find(is_it);
    resource.map(|(written, _)| *written)
}

/// Starts a gateway whose routes are the resources, each with a policy that identifies it, and one for the rest.
fn gateway(garden: &Garden, rest: &str) -> Running {
    let mut config = quiet("builtin:echo");
    let mut routes = vec![("/*", rest.to_owned())];
    for (number, (written, _)) in RESOURCES.iter().enumerate() {
        let name = format!("resource-{number}");
        config = config.policy(&name, "quota = '1000000 per day'\npartition = []");
        routes.push((written, format!("policies = ['{name}']")));
    }
    let routes: Vec<_> = routes
        .iter()
        .map(|(path, lines)| (*path, lines.as_str()))
        .collect();
    start(&planted(config, garden, &routes))
}

/// Runs a sixteenth of the cases that proptest is set to (`PROPTEST_CASES`, 256 by default), each with 32 targets.
fn run(check: impl Fn(&[String]) -> Result<(), TestCaseError>) {
    let settings = Settings::default();
    let mut runner = TestRunner::new(Settings {
        cases: settings.cases / 16,
        failure_persistence: None,
        ..settings
    });
    let targets = prop::collection::vec(target(), 32);
    let result = runner.run(&targets, |targets| check(&targets));
    result.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Returns one garden for all tests that run at the same time, because each garden starts four servers.
fn garden() -> Arc<Garden> {
    static SHARED: Mutex<Weak<Garden>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().expect("a garden that starts");
    shared.upgrade().unwrap_or_else(|| {
        let decoded = RESOURCES.map(|(_, decoded)| decoded);
        let garden = Arc::new(Garden::start(&decoded));
        *shared = Arc::downgrade(&garden);
        garden
    })
}

/// If an origin takes a forwarded path for a resource, the gateway matched that resource's route. Forwarded paths are
/// normalised, and decoding one never yields segments that lead elsewhere.
#[test]
fn what_was_matched_is_what_every_origin_reads() {
    let garden = garden();
    let running = gateway(&garden, "");
    run(|targets| {
        compare(&garden, &running, targets, |target, matched, reading| {
            let (by, path) = (&reading.by, reading.text());
            if let Some(meant) = meant(reading, &path) {
                prop_assert_eq!(matched, Some(meant), "{} at {}", target, by);
            }
            let leads_on =
                |segment: &str| matches!(segment, "." | "..") || segment.contains(['\0', '\\']);
            prop_assert!(
                !path.split('/').any(leads_on),
                "{} at {}: {}",
                target,
                by,
                path
            );
            prop_assert!(!path.contains("//"), "{} at {}: {}", target, by, path);
            if by == "node-url" {
                let again = normalise(&path).expect("a forwarded path is good");
                prop_assert_eq!(again.as_str(), &path);
            }
            Ok(())
        })
    });
}

/// The same if the other routes keep encoded slashes, even for origins that decode them, and that
/// take backslashes for slashes.
#[test]
fn kept_slashes_hide_no_route_from_any_origin() {
    let garden = garden();
    let running = gateway(&garden, "encoded_slash = 'keep'");
    run(|targets| {
        compare(&garden, &running, targets, |target, matched, reading| {
            let path = reading.text().replace('\\', "/");
            let segments: Vec<_> = path
                .split('/')
                .filter(|segment| !segment.is_empty())
                .collect();
            let merged = format!("/{}", segments.join("/"));
            if let Some(meant) = meant(reading, &merged) {
                prop_assert_eq!(matched, Some(meant), "{} at {}", target, reading.by);
            }
            let leads_on =
                |segment: &&str| matches!(*segment, "." | "..") || segment.contains('\0');
            prop_assert!(!segments.iter().any(leads_on), "{}: {}", target, path);
            Ok(())
        })
    });
}

/// The same if the other routes forward paths as they were sent, for origins that resolve dot segments or merge slashes
/// themselves, in either order.
#[test]
fn what_is_forwarded_as_it_was_sent_is_no_resource_to_any_origin() {
    let garden = garden();
    let running = gateway(&garden, "forward_path = 'as-sent'\nencoded_slash = 'keep'");
    run(|targets| {
        compare(&garden, &running, targets, |target, matched, reading| {
            let sent = reading.text().replace('\\', "/");
            let (merged, resolved) = (merged(&sent), resolved(&sent));
            for path in [
                self::resolved(&merged),
                self::merged(&resolved),
                merged,
                resolved,
                sent,
            ] {
                if let Some(meant) = meant(reading, &path) {
                    prop_assert_eq!(matched, Some(meant), "{} at {}", target, reading.by);
                }
            }
            Ok(())
        })
    });
}

fn merged(path: &str) -> String {
    let mut path = path.to_owned();
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    path
}

fn resolved(path: &str) -> String {
    let mut kept = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => _ = kept.pop(),
            name => kept.push(name),
        }
    }
    format!("/{}", kept.join("/"))
}
