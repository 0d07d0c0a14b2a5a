//! Access-log lines: one line of JSON or text, whatever bytes a client sent.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollgate::access_log::{AccessEntry, PolicyEntry, RefusingEntry};
use tollgate::clock::Timestamp;
use tollgate::fault::Reason;
use tollgate::logging::LogFormat;
use tollgate::metrics::PolicyOutcome;

/// The input: a record's texts, separated by the byte 0x1e, in the order of `TEXTS`.
pub fn holds(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0x1e);
    let texts: BTreeMap<&str, &[u8]> = TEXTS
        .iter()
        .map(|&name| (name, parts.next().unwrap_or_default()))
        .collect();
    let route = String::from_utf8_lossy(texts["route"]);
    let [policy, partition, tier, quota] = ["policies", "partitions", "tiers", "refused_by"]
        .map(|name| String::from_utf8_lossy(texts[name]));
    let number = u64::try_from(data.len()).expect("a length");
    let record = AccessEntry {
        at: Timestamp(number << 40),
        listener: "public",
        client: texts["client"],
        method: texts["method"],
        host: texts["host"],
        path: texts["path"],
        protocol: "HTTP/1.1",
        tls_version: Some("1.2"),
        user_agent: texts["user_agent"],
        route: Some(&route),
        status: Some(429),
        reason: Some(Reason::QuotaExceeded),
        retry_after_secs: Some(number),
        endpoint: None,
        attempts: u32::try_from(data.len()).ok(),
        cause: None,
        policies: &[
            PolicyEntry {
                name: &policy,
                outcome: PolicyOutcome::Refused,
                partition: &partition,
                tier: &tier,
                cost: number,
                charged: 0,
            },
            PolicyEntry {
                name: &policy,
                outcome: PolicyOutcome::Admitted,
                partition: "",
                tier: "",
                cost: 1,
                charged: u64::MAX,
            },
        ],
        refusing: &[RefusingEntry {
            policy: 0,
            quota: &quota,
            is_candidate: false,
        }],
        limit: None,
        remaining: Some(number),
        cost_missing: None,
        is_cost_capped: false,
        duration_us: u64::MAX,
        upstream_us: None,
        delayed_us: Some(0),
        received_bytes: number,
        sent_bytes: number,
        is_degraded: true,
        request_id: texts["request_id"],
        trace_id: texts["trace_id"],
    };
    let json = line(&record, LogFormat::Json);
    let fields: Value = serde_json::from_str(&json).expect(&json);
    let fields = fields.as_object().expect("one object");
    for (&name, &sent) in &texts {
        let shown = match name {
            "partitions" | "tiers" | "user_agent" | "request_id" | "trace_id"
                if sent.is_empty() =>
            {
                None
            }
            // Without a method, it never became a request.
            "method" | "host" | "path" if texts["method"].is_empty() => None,
            "path" => Some(redacted(sent, 1024)),
            "route" => Some(redacted(route.as_bytes(), 256)),
            "policies" => Some(redacted(policy.as_bytes(), 256)),
            "partitions" => Some(redacted(partition.as_bytes(), 256)),
            "tiers" => Some(redacted(tier.as_bytes(), 256)),
            "refused_by" => Some(redacted(quota.as_bytes(), 256)),
            _ => Some(redacted(sent, 256)),
        };
        let logged = match fields.get(name) {
            Some(Value::Array(list)) => list.first(),
            field => field,
        };
        assert_eq!(logged.and_then(Value::as_str), shown.as_deref(), "{name}");
    }
    if !texts["method"].is_empty() {
        assert_eq!(fields["sent_bytes"], number);
    }
    lists_have_an_item_for_each_policy(fields, number);
    text_has_the_same_fields(&record, fields);
}

fn lists_have_an_item_for_each_policy(fields: &Map<String, Value>, number: u64) {
    for (name, items) in [
        ("refused_by", 1),
        ("policies", 2),
        ("partitions", 2),
        ("tiers", 2),
    ] {
        let list = fields.get(name).and_then(Value::as_array);
        assert!(list.is_none_or(|list| list.len() == items), "{name}");
    }
    assert_eq!(fields["costs"], json!([number, 1]));
    assert_eq!(fields["charged"], json!([0, u64::MAX]));
}

/// Asserts that the line of text has the same fields as the line of JSON.
fn text_has_the_same_fields(record: &AccessEntry<'_>, fields: &Map<String, Value>) {
    let text = line(record, LogFormat::Text);
    let rest = text.split_once(" access ").expect("a time and a target").1;
    let keys: Vec<&str> = words(rest.trim_end_matches('\n'))
        .into_iter()
        .map(|word| word.split_once('=').expect("a key and a value").0)
        .collect();
    let of_json: Vec<&str> = fields.keys().map(String::as_str).collect();
    let mut expected = of_json;
    expected.retain(|key| !matches!(*key, "timestamp" | "target"));
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected, "{text}");
}

fn line(record: &AccessEntry<'_>, format: LogFormat) -> String {
    let mut out = Vec::new();
    record.write(&mut out, format);
    let line = String::from_utf8(out).expect("lines are UTF-8");
    let one = line.strip_suffix('\n').expect("a newline at its end");
    let is_odd = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{feff}');
    assert!(!one.contains(is_odd), "{one:?}");
    line
}

/// Returns what is logged of a text: at most `bytes_max` bytes.
fn redacted(sent: &[u8], bytes_max: usize) -> String {
    let cut = &sent[..sent.len().min(bytes_max)];
    let more = if cut.len() < sent.len() { "…" } else { "" };
    format!("{}{more}", String::from_utf8_lossy(cut))
}

/// Splits a line of text at the spaces outside of quotes.
fn words(line: &str) -> Vec<&str> {
    let (mut words, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                words.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    assert!(!quoted, "every quote is closed: {line}");
    words.push(&line[start..]);
    words
}

const TEXTS: &[&str] = &[
    "path",
    "host",
    "method",
    "client",
    "partitions",
    "route",
    "policies",
    "request_id",
    "trace_id",
    "user_agent",
    "tiers",
    "refused_by",
];
