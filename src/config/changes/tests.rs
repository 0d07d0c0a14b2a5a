//! The exact lines about what a reload changes.

mod certificates;
mod overrides;
mod prices;
mod store;
mod tokens;
mod upstreams;

use super::*;
use crate::config;
use crate::limit::plan::SeriesId;

const BASE: &str = r#"
workers = 2
[listeners.public]
address = "127.0.0.1:8080"
[upstreams.api]
endpoints = ["http://127.0.0.1:9000"]
[upstreams.web]
endpoints = ["http://127.0.0.1:9001"]
[policies.per-client]
quota = "100 per minute"
[policies.bucket]
quota = "10 per second"
algorithm = "gcra"
[[routes]]
path = "/*"
upstream = "api"
policies = ["per-client", "bucket"]
"#;

/// Texts in the base file, each with its replacement.
type Edits<'e> = &'e [(&'e str, &'e str)];

fn loaded(text: &str) -> Loaded {
    let loaded = config::load(text, &|_| None, &mut |_| SeriesId(0));
    loaded.unwrap_or_else(|report| panic!("{}", report.render("test", text, false)))
}

/// Keeps what needs a restart, and returns what else changes.
fn kept(old: &Loaded, new: Loaded) -> (Changes, Loaded) {
    let kept = keep_until_restart(&old.file, &old.snapshot, new);
    (changes(&old.file, &kept.file), kept)
}

/// Edits the base file and returns what that changes.
fn edit(edits: Edits) -> Changes {
    let mut text = BASE.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{from} is not in the base file");
        text = text.replacen(from, to, 1);
    }
    changes(&loaded(BASE).file, &loaded(&text).file)
}

fn applied(lines: &[&str]) -> Changes {
    Changes {
        applied: lines.iter().map(ToString::to_string).collect(),
        needs_restart: Vec::new(),
    }
}

fn restart(lines: &[&str]) -> Changes {
    Changes {
        applied: Vec::new(),
        needs_restart: lines.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_same_file_changes_nothing() {
    assert_eq!(edit(&[]), Changes::default());
}

#[test]
fn a_number_keeps_the_counters_and_a_shape_does_not() {
    let cases: [(Edits, &[&str]); 8] = [
        (
            &[("100 per minute", "200 per minute")],
            &["policy per-client: 100 → 200 per minute, counters kept"],
        ),
        (
            &[("100 per minute", "1000 per hour")],
            &["policy per-client: 100 per minute → 1000 per hour, counters start afresh"],
        ),
        (
            &[("\"100 per minute\"", "[\"100 per minute\", \"5 per 2s\"]")],
            &["policy per-client: 5 per 2s added"],
        ),
        (
            &[("\"100 per minute\"", "\"100 per minute\"\nbuckets = 20")],
            &["policy per-client: buckets 10 → 20, counters start afresh"],
        ),
        (
            &[(
                "\"100 per minute\"",
                "\"100 per minute\"\noldest_bucket = \"whole\"",
            )],
            &["policy per-client: oldest_bucket weighted → whole, counters start afresh"],
        ),
        (
            &[("\"gcra\"", "\"sliding-window\"")],
            &["policy bucket: algorithm gcra → sliding-window, counters start afresh"],
        ),
        (
            &[("\"gcra\"", "\"gcra\"\nburst = 5")],
            &["policy bucket: burst the quota → 5, counters kept"],
        ),
        (
            &[("10 per second", "20 per second")],
            &["policy bucket: 10 → 20 per second, counters kept"],
        ),
    ];
    for (edits, lines) in cases {
        assert_eq!(edit(edits), applied(lines));
    }
}

#[test]
fn counters_of_clients_with_another_prefix_start_afresh() {
    assert_eq!(
        edit(&[(
            "[listeners.public]\n",
            "[listeners.public]\nipv6_prefix = 56\n"
        )]),
        applied(&["listener public: ipv6_prefix 64 → 56, counters start afresh"])
    );
}

#[test]
fn counters_of_another_partition_are_not_called_kept() {
    assert_eq!(
        edit(&[(
            "\"100 per minute\"",
            "\"200 per minute\"\npartition = [\"header:x-api-key | ip\"]"
        )]),
        applied(&[
            "policy per-client: partition [\"ip\"] → [\"header:x-api-key | ip\"], counters start afresh",
            "policy per-client: 100 → 200 per minute",
        ])
    );
}

#[test]
fn every_setting_is_named_with_both_values() {
    assert_eq!(
        edit(&[
            (
                "workers = 2",
                "workers = 2\nratelimit_headers = \"both\"\nshutdown_grace = \"2m\"\nlog = { level = \"debug\", file = \"/tmp/log\", format = \"json\" }"
            ),
            (
                "8080\"",
                "8080\"\nidle_timeout = \"30s\"\ntrusted_proxies = [\"10.0.0.0/8\"]"
            ),
            ("9000\"]", "9000\", \"http://127.0.0.1:9002\"]\nretries = 3"),
            (
                "minute\"",
                "minute\"\nmode = \"shadow\"\ncount = \"all\"\non_missing = \"skip\"\non_store_failure = \"open\""
            ),
            (
                "upstream = \"api\"",
                "upstream = \"web\"\nmax_body_bytes = \"1MiB\"\npreserve_host = false"
            ),
            ("[\"per-client\", \"bucket\"]", "[\"bucket\"]\ncost = 5"),
        ]),
        applied(&[
            "ratelimit_headers ietf → both",
            "shutdown_grace 30s → 2m",
            "log: level info → debug",
            "log: format text on a terminal, otherwise json → json",
            "log: file standard output → /tmp/log",
            "listener public: trusted_proxies [] → [10.0.0.0/8]",
            "listener public: idle_timeout 75s → 30s",
            "upstream api: endpoints [http://127.0.0.1:9000] → [http://127.0.0.1:9000, http://127.0.0.1:9002]",
            "upstream api: retries 1 → 3",
            "policy per-client: on_missing share → skip",
            "policy per-client: count admitted → all",
            "policy per-client: mode enforce → shadow",
            "policy per-client: on_store_failure local → open",
            "route /*: upstream api → web",
            "route /*: policies [per-client, bucket] → [bucket]",
            "route /*: preserve_host true → false",
            "route /*: cost the policies' own → 5",
            "route /*: max_body_bytes the listener's → 1MiB",
        ])
    );
}

#[test]
fn what_a_route_matches_is_named_too() {
    assert_eq!(
        edit(&[
            (
                "workers = 2",
                "workers = 2\ndefault_policies = [\"bucket\"]"
            ),
            ("minute\"", "minute\"\ncost = 2"),
            ("9000\"]", "9000\"]\nresponse_timeout = \"5s\""),
            (
                "path = \"/*\"",
                "path = \"/*\"\ncase_insensitive = true\ndefault_policies = false\nbody_timeout = \"5s\""
            ),
        ]),
        applied(&[
            "default_policies [] → [bucket]",
            "upstream api: response_timeout 30s → 5s",
            "policy per-client: cost 1 → 2",
            "route /*: default_policies true → false",
            "route /*: body_timeout the upstream's → 5s",
            "route /*: case_insensitive false → true",
        ])
    );
}

/// The value of a header may be a client's key, so it stays out of the log.
#[test]
fn a_header_that_a_route_asks_for_is_named_without_its_value() {
    let with = |value: &str| {
        let headers = format!("path = \"/*\"\nheaders = {{ x-version = \"{value}\" }}");
        loaded(&BASE.replacen("path = \"/*\"", &headers, 1))
    };
    assert_eq!(
        changes(&with("2").file, &with("3").file),
        applied(&["route /* [x-version]: headers changed"])
    );
}

#[test]
fn another_order_of_regular_expressions_is_named() {
    let with = |expressions: &[&str]| {
        let route =
            |regex: &&str| format!("[[routes]]\npath_regex = \"{regex}\"\nupstream = \"api\"\n");
        let routes: String = expressions.iter().map(route).collect();
        loaded(&format!("{BASE}{routes}"))
    };
    assert_eq!(
        changes(
            &with(&["/a.*", "/b.*", "/c.*"]).file,
            &with(&["/b.*", "/a.*", "/c.*"]).file
        ),
        applied(&["route /b.* is tried before route /a.* now: both have regular expressions"])
    );
    assert_eq!(
        changes(
            &with(&["/a.*", "/c.*"]).file,
            &with(&["/b.*", "/a.*", "/c.*"]).file
        ),
        applied(&["route /b.* added"])
    );
}

#[test]
fn what_comes_and_goes_is_named() {
    assert_eq!(
        edit(&[
            ("[upstreams.web]", "[upstreams.shop]"),
            ("[policies.bucket]", "[policies.spare]"),
            (", \"bucket\"", ""),
            ("path = \"/*\"", "path = \"/shop\""),
        ]),
        applied(&[
            "upstream web removed",
            "upstream shop added",
            "policy bucket removed",
            "policy spare added",
            "route /* removed",
            "route /shop added",
        ])
    );
}

#[test]
fn what_needs_a_restart_is_said_once_per_key() {
    assert_eq!(
        edit(&[
            ("workers = 2", "workers = 4\nadmin = { address = \"off\" }"),
            (
                "8080\"",
                "8081\"\n[listeners.more]\naddress = \"127.0.0.1:8082\""
            ),
        ]),
        restart(&[
            "workers 2 → 4",
            "admin: address 127.0.0.1:8090 → off",
            "listener more added",
            "listener public: address 127.0.0.1:8080 → 127.0.0.1:8081",
        ])
    );
}

#[test]
fn keys_that_need_a_restart_keep_their_value_and_the_rest_applies() {
    let old = loaded(BASE);
    let new = BASE
        .replacen(
            "workers = 2",
            "workers = 4\nadmin = { address = \"off\" }\nstore = { max_memory = \"1GiB\" }",
            1,
        )
        .replacen(
            "8080\"",
            "8081\"\nidle_timeout = \"30s\"\n[listeners.more]\naddress = \"127.0.0.1:8082\"",
            1,
        )
        .replacen("100 per minute", "200 per minute", 1);
    let (changes, kept) = kept(&old, loaded(&new));
    assert_eq!(kept.snapshot.general, old.snapshot.general);
    assert_eq!(kept.snapshot.admin, old.snapshot.admin);
    assert_eq!(kept.snapshot.listeners.len(), 1);
    let address = &kept.snapshot.listeners.raw[0].address;
    assert_eq!(*address, old.snapshot.listeners.raw[0].address);
    assert_eq!(
        changes,
        applied(&[
            "store: max_memory 256MiB → 1GiB",
            "listener public: idle_timeout 75s → 30s",
            "policy per-client: 100 → 200 per minute, counters kept",
        ])
    );
}

#[test]
fn a_listener_that_left_the_file_runs_until_the_restart() {
    let old = loaded(BASE);
    let renamed = loaded(&BASE.replacen("listeners.public", "listeners.web", 1));
    assert_eq!(
        changes(&old.file, &renamed.file),
        restart(&["listener public removed", "listener web added"])
    );
    let (changes, kept) = kept(&old, renamed);
    assert_eq!(kept.snapshot.listeners, old.snapshot.listeners);
    assert_eq!(changes, Changes::default());
}
