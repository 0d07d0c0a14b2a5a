//! Access-log lines: one line of JSON or text, whatever bytes a client sent.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate::access_log::AccessEntry;
use tollgate::clock::Timestamp;
use tollgate::fault::Reason;
use tollgate::logging::LogFormat;
use tollgate::metrics::PolicyOutcome;

/// The input: a record's texts with the byte 0x1e between them, in the order of `TEXTS`.
pub fn holds(data: &[u8]) {
    let mut parts = data.split(|&byte| byte == 0x1e);
    let texts: BTreeMap<&str, &[u8]> = TEXTS
        .iter()
        .map(|&name| (name, parts.next().unwrap_or_default()))
        .collect();
    let route = String::from_utf8_lossy(texts["route"]);
    let policy = String::from_utf8_lossy(texts["policies"]);
    let number = u64::try_from(data.len()).expect("a length");
    let record = AccessEntry {
        at: Timestamp(number << 40),
        listener: "public",
        client: texts["client"],
        partition: texts["partition"],
        method: texts["method"],
        host: texts["host"],
        path: texts["path"],
        route: Some(&route),
        status: Some(429),
        policies: &[
            (&policy, PolicyOutcome::Refused),
            (&policy, PolicyOutcome::Admitted),
        ],
        remaining: Some(number),
        cost: None,
        cost_missing: None,
        reserved: None,
        is_cost_capped: false,
        overrides: b"",
        reason: Some(Reason::QuotaExceeded),
        endpoint: None,
        attempts: u32::try_from(data.len()).ok(),
        cause: None,
        duration_us: u64::MAX,
        upstream_us: None,
        delayed_us: Some(0),
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
            "partition" | "request_id" | "trace_id" if sent.is_empty() => None,
            // What has no method never became a request.
            "method" | "host" | "path" if texts["method"].is_empty() => None,
            "path" => Some(redacted(sent, 1024)),
            "route" => Some(redacted(route.as_bytes(), 256)),
            "policies" => Some(redacted(policy.as_bytes(), 256)),
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
    assert_eq!(fields["refused_by"].as_array().map(Vec::len), Some(1));

    let text = line(&record, LogFormat::Text);
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

/// What of a text is logged.
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
    "partition",
    "route",
    "policies",
    "request_id",
    "trace_id",
];
