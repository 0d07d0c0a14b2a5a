//! Lines of the access log, in both shapes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::*;
use crate::logging::LogFiles;
use serde_json::Value;

static ENTRY: LazyLock<AccessEntry<'static>> = LazyLock::new(|| AccessEntry {
    at: Timestamp(1_795_213_610_000_042),
    listener: "public",
    client: b"203.0.113.9",
    method: b"GET",
    host: b"example.com",
    path: b"/v1/items",
    protocol: "HTTP/1.1",
    attempts: Some(0),
    duration_us: 250,
    ..AccessEntry::default()
});

static REFUSED: LazyLock<AccessEntry<'static>> = LazyLock::new(|| AccessEntry {
    route: Some("GET /v1/*"),
    status: Some(429),
    tls_version: Some("1.3"),
    user_agent: b"curl/8.5.0",
    reason: Some(Reason::QuotaExceeded),
    retry_after_secs: Some(7),
    endpoint: Some("10.0.0.5:9000"),
    attempts: Some(2),
    cause: Some("refused"),
    policies: const {
        &[
            policy("per-client", PolicyOutcome::Admitted),
            PolicyEntry {
                partition: "all",
                tier: "live_*",
                charged: 3,
                ..policy("global", PolicyOutcome::Refused)
            },
            policy("trial", PolicyOutcome::ShadowRefused),
        ]
    },
    refusing: const {
        &[
            refusing(0, "per-client: 3 per 1s", true),
            refusing(1, "global: 9 per 1s", false),
            refusing(1, "global: 5 per 2s", true),
            refusing(1, "global: 99 per 1m", false),
        ]
    },
    limit: Some(9),
    remaining: Some(0),
    received_bytes: 12,
    upstream_us: Some(200),
    delayed_us: Some(10),
    sent_bytes: 197,
    is_degraded: true,
    request_id: b"7f\"1",
    trace_id: b"0af7",
    ..*ENTRY
});

const fn policy(name: &str, outcome: PolicyOutcome) -> PolicyEntry<'_> {
    PolicyEntry {
        name,
        outcome,
        partition: "",
        tier: "",
        cost: 3,
        charged: 0,
    }
}

const fn refusing(policy: usize, quota: &str, is_candidate: bool) -> RefusingEntry<'_> {
    RefusingEntry {
        policy,
        quota,
        is_candidate,
    }
}

fn line(format: LogFormat, entry: &AccessEntry<'_>) -> String {
    let mut bytes = Vec::new();
    entry.write(&mut bytes, format);
    String::from_utf8(bytes).expect("lines are UTF-8")
}

#[test]
fn json_line_says_everything_and_leaves_out_what_is_not_there() {
    assert_eq!(
        line(LogFormat::Json, &ENTRY),
        "{\"timestamp\":\"2026-11-20T22:26:50.000042Z\",\"target\":\"access\",\
         \"listener\":\"public\",\"client\":\"203.0.113.9\",\"method\":\"GET\",\
         \"host\":\"example.com\",\"path\":\"/v1/items\",\"protocol\":\"HTTP/1.1\",\
         \"duration_us\":250,\"received_bytes\":0,\"sent_bytes\":0}\n"
    );
    assert_eq!(
        line(LogFormat::Json, &REFUSED),
        "{\"timestamp\":\"2026-11-20T22:26:50.000042Z\",\"target\":\"access\",\
         \"listener\":\"public\",\"client\":\"203.0.113.9\",\"method\":\"GET\",\
         \"host\":\"example.com\",\"path\":\"/v1/items\",\"protocol\":\"HTTP/1.1\",\
         \"tls_version\":\"1.3\",\"user_agent\":\"curl/8.5.0\",\"route\":\"GET /v1/*\",\
         \"status\":429,\"reason\":\"quota_exceeded\",\"fault\":\"client\",\
         \"retry_after\":7,\"endpoint\":\"10.0.0.5:9000\",\"attempts\":2,\
         \"cause\":\"refused\",\"policies\":[\"per-client\",\"global\",\"trial\"],\
         \"decision\":\"refused\",\"partitions\":[\"\",\"all\",\"\"],\
         \"tiers\":[\"\",\"live_*\",\"\"],\"costs\":[3,3,3],\"charged\":[0,3,0],\
         \"refused_by\":[\"global: 9 per 1s\",\"global: 99 per 1m\"],\
         \"shadow_refused_by\":[\"trial\"],\
         \"candidate_refused_by\":[\"per-client: 3 per 1s\",\"global: 5 per 2s\"],\
         \"limit\":9,\"remaining\":0,\"duration_us\":250,\"upstream_us\":200,\
         \"delayed_us\":10,\"received_bytes\":12,\"sent_bytes\":197,\"degraded\":true,\"request_id\":\"7f\\\"1\",\
         \"trace_id\":\"0af7\"}\n"
    );
}

#[test]
fn text_line_says_the_same() {
    assert_eq!(
        line(LogFormat::Text, &REFUSED),
        "2026-11-20T22:26:50.000042Z access listener=public client=203.0.113.9 method=GET \
         host=example.com path=/v1/items protocol=HTTP/1.1 tls_version=1.3 \
         user_agent=curl/8.5.0 route=\"GET /v1/*\" status=429 reason=quota_exceeded \
         fault=client retry_after=7 endpoint=10.0.0.5:9000 attempts=2 cause=refused \
         policies=per-client,global,trial decision=refused \
         partitions=\"\",all,\"\" tiers=\"\",live_*,\"\" costs=3,3,3 charged=0,3,0 \
         refused_by=\"global: 9 per 1s\",\"global: 99 per 1m\" shadow_refused_by=trial \
         candidate_refused_by=\"per-client: 3 per 1s\",\"global: 5 per 2s\" limit=9 \
         remaining=0 duration_us=250 upstream_us=200 delayed_us=10 received_bytes=12 \
         sent_bytes=197 degraded=true request_id=\"7f\\\"1\" \
         trace_id=0af7\n"
    );
}

/// The list of fields is a contract (`docs/operations.md`).
#[test]
fn a_line_has_the_documented_fields_of_the_documented_types() {
    let outcomes = [
        policy("a", PolicyOutcome::Refused),
        policy("b", PolicyOutcome::Blocked),
        policy("c", PolicyOutcome::Unidentified),
        policy("d", PolicyOutcome::Marked),
        policy("e", PolicyOutcome::ShadowRefused),
        REFUSED.policies[1],
    ];
    let entry = AccessEntry {
        policies: &outcomes,
        cost_missing: Some(MissingCost::Header),
        is_cost_capped: true,
        ..*REFUSED
    };
    let fields: Value = serde_json::from_str(&line(LogFormat::Json, &entry)).expect("JSON");
    let fields = fields.as_object().expect("one object");
    let kind = |value: &Value| match value {
        Value::Array(items) if items[0].is_number() => "list of numbers",
        Value::Array(_) => "list of texts",
        Value::Number(_) => "number",
        Value::Bool(true) => "`true`",
        _ => "text",
    };
    let written = fields.iter().map(|(name, value)| (&**name, kind(value)));
    let page = include_str!("../../docs/operations.md");
    let (_, table) = page.split_once("| field | type | |").expect("the table");
    let (table, _) = table.split_once("\n\n").expect("its end");
    let rows = table.lines().filter_map(|row| {
        let [_, names, kind, ..] = row.split('|').collect::<Vec<_>>()[..] else {
            return None;
        };
        Some(
            names
                .split('`')
                .skip(1)
                .step_by(2)
                .map(move |name| (name, kind.trim())),
        )
    });
    let documented: BTreeMap<&str, &str> = rows.flatten().collect();
    assert_eq!(written.collect::<BTreeMap<_, _>>(), documented);
}

#[test]
fn line_of_a_head_that_never_became_a_request_says_who_sent_it_and_why_it_was_refused() {
    let entry = AccessEntry {
        method: b"",
        status: Some(400),
        reason: Some(Reason::Syntax),
        ..*ENTRY
    };
    assert_eq!(
        line(LogFormat::Text, &entry),
        "2026-11-20T22:26:50.000042Z access listener=public client=203.0.113.9 status=400 \
         reason=syntax fault=client\n"
    );
}

#[test]
fn hostile_bytes_add_no_field_to_a_text_line() {
    for (path, shown) in [
        (&b"/a status=200"[..], r#""/a status=200""#),
        (b"/a\" status=200", r#""/a\" status=200""#),
        (b"/a\\", r#""/a\\""#),
        (b"/a,b", r#""/a,b""#),
        (b"", r#""""#),
    ] {
        let text = line(LogFormat::Text, &AccessEntry { path, ..*ENTRY });
        let expected = format!("host=example.com path={shown} protocol=HTTP/1.1 duration_us=250");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn refused_only_log_has_refusals_and_no_broken_off_answers() {
    let wanted = |reason| {
        let entry = AccessEntry { reason, ..*ENTRY };
        [AccessLog::All, AccessLog::Refused, AccessLog::Off].map(|a| entry.is_wanted(a))
    };
    assert_eq!(wanted(None), [true, false, false]);
    assert_eq!(wanted(Some(Reason::ConnectFailed)), [true, true, false]);
    assert_eq!(wanted(Some(Reason::ClientGone)), [true, false, false]);
}

#[test]
fn full_blocks_and_flushes_reach_the_output_in_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("log");
    let output = Output::open(LogFiles {
        events: Some(&file),
        access: None,
    });
    let output = output.expect("a log file");
    let writer = Writer::new(output.clone());
    for duration_us in 0..100 {
        let entry = AccessEntry {
            duration_us,
            ..*ENTRY
        };
        writer.record(AccessLog::All, LogFormat::Json, &entry);
    }
    drop(writer);
    output.flush();
    let text = std::fs::read_to_string(&file).expect("a log");
    let durations: Vec<u64> = (text.lines())
        .filter_map(|line| {
            let fields: Value = serde_json::from_str(line).expect("one JSON object");
            fields["duration_us"].as_u64()
        })
        .collect();
    assert_eq!(durations, (0..100).collect::<Vec<u64>>());
}
