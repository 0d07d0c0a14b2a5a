//! Bytes by which a client tries to mislead readers of the log or the metrics.

use serde_json::Value;

use crate::support::{Client, Config, Metered, Process, eventually, get};

/// Longest line of the access log, whatever its client sent, in bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// A file with a policy by key, host and path, so that all three show in the log.
fn keyed(format: &str) -> Config {
    Config::to("builtin:echo")
        .one_worker()
        .listener("max_header_bytes = '1MiB'")
        .policy(
            "keyed",
            "quota = '1000 per hour'\npartition = ['header:x-api-key', 'host', 'path']",
        )
        .route("/api/*", "policies = ['keyed']")
        .with(&format!("[log]\nformat = '{format}'"))
}

/// Returns requests that are valid HTTP, so that each is logged, with bytes that do not belong in a log.
fn hostile() -> Vec<Vec<u8>> {
    let request = |target: &[u8], fields: &[u8]| -> Vec<u8> {
        let parts = [b"GET ", target, b" HTTP/1.1\r\n", fields, b"\r\n"];
        parts.concat()
    };
    let host = b"Host: a.test\r\n";
    let key = |key: &[u8]| [&host[..], b"X-Api-Key: ", key, b"\r\n"].concat();
    let large = vec![b'k'; 900 * 1024];
    vec![
        request(b"/api/%0a%0d%22%1b%5b31m?a=%22%0a", host),
        request("/api/\u{202e}\u{2028}\u{9b}31m".as_bytes(), host),
        request(b"/api/{\"status\":1}\",\"forged\":\"x", host),
        request(
            b"/api/ok?status=500 forged=1"
                .split(|x| *x == b' ')
                .next()
                .expect("a part"),
            host,
        ),
        request(b"/api/key", &key(b"\xff\"\\\t\xfe{}\",\"status\":1")),
        request(b"/api/key", &key(b"a b=c status=500")),
        request(b"/api/key", &key("\u{202e}\u{9b}31m\u{feff}".as_bytes())),
        request(b"/api/key", &key(&large)),
        request(&[b"/api/", vec![b'p'; 60_000].as_slice()].concat(), host),
        request(
            b"/api/agent",
            &[&host[..], b"User-Agent: \"},{\"forged\":\xe2\x80\xa8\r\n"].concat(),
        ),
        request(
            b"/api/agent",
            &[&host[..], b"Referer: ", &large, b"\r\n"].concat(),
        ),
        request(b"/api/host", b"Host: a.test\"{}\r\n"),
        request(b"/api/host", b"Host: \xff\xfe\x80\r\n"),
        request(
            b"/api/host",
            &[b"Host: ", vec![b'h'; 60_000].as_slice(), b"\r\n"].concat(),
        ),
        [
            &b"FORGED-status=500"[..],
            b" /api/method HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
        ]
        .concat(),
        [
            vec![b'M'; 60_000].as_slice(),
            b" /api/method HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
        ]
        .concat(),
    ]
}

/// Sends each hostile request on its own connection; returns how many there were.
fn send_all(process: &Process) -> usize {
    let requests = hostile();
    for request in &requests {
        let mut client = Client::connect(process.public);
        client.send(request);
        client.answer();
    }
    requests.len()
}

/// Returns the lines of the access log, which must be `count`; a request for `/last` shows when all are written.
#[track_caller]
fn access_lines(process: &Process, count: usize) -> Vec<String> {
    get(process.public, "/last", "");
    let lines = eventually("the last line of the access log", || {
        let lines = process.lines();
        lines
            .iter()
            .any(|line| line.contains("/last"))
            .then_some(lines)
    });
    let access = lines
        .into_iter()
        .filter(|line| line.contains("\"access\"") || line.contains("Z access "));
    let access: Vec<_> = access.filter(|line| !line.contains("/last")).collect();
    assert_eq!(access.len(), count, "{access:#?}");
    access
}

/// Fails on characters that a terminal acts on or that reorder its text, and on lines that are too long.
#[track_caller]
fn check_printable(line: &str) {
    let is_bad = |c: char| c.is_control() || "\u{202e}\u{2028}\u{2029}\u{feff}".contains(c);
    assert!(!line.contains(is_bad), "{line:?}");
    assert!(line.len() <= LINE_BYTES_MAX, "{} bytes", line.len());
}

#[test]
fn no_client_can_break_or_forge_a_line_of_json() {
    let process = Process::start(&keyed("json"));
    let count = send_all(&process);
    for line in access_lines(&process, count) {
        check_printable(&line);
        let record: Value = serde_json::from_str(&line).expect("a log line is JSON");
        let record = record.as_object().expect("an object");
        assert!(!record.contains_key("forged"), "{line}");
        let status = record["status"].as_u64().expect("a status");
        assert!(matches!(status, 200 | 400 | 404), "{line}");
        // If a key occurs twice, parsers differ in which one they take.
        let names = [
            "\"status\":",
            "\"path\":",
            "\"host\":",
            "\"client\":",
            "\"method\":",
        ];
        for name in names {
            let bare = line.replace("\\\"", "");
            assert!(bare.matches(name).count() <= 1, "{name} in {line}");
        }
    }
}

#[test]
fn no_client_can_break_or_forge_a_line_of_text() {
    let process = Process::start(&keyed("text"));
    let count = send_all(&process);
    for line in access_lines(&process, count) {
        check_printable(&line);
        // Text outside quotes is written by the gateway, or harmless.
        let mut bare = String::new();
        for (index, part) in line.replace("\\\"", "").split('"').enumerate() {
            if index % 2 == 0 {
                bare.push_str(part);
            }
        }
        assert_eq!(bare.matches(" status=").count(), 1, "{line}");
        assert!(!bare.contains("forged="), "{line}");
    }
}

#[test]
fn no_byte_of_a_client_becomes_a_label() {
    let process = Process::start(&keyed("json"));
    let series = |process: &Process| -> Vec<String> {
        let text = process.metrics();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.filter_map(|line| line.rsplit_once(' '));
        let names = samples.map(|(name, value)| {
            assert!(name.starts_with("tollgate_") || name.starts_with("process_"));
            assert!(value.parse::<f64>().is_ok(), "{name} {value}");
            name.to_owned()
        });
        names.collect()
    };
    let send = |numbers: std::ops::Range<u32>| {
        send_all(&process);
        for number in numbers {
            let fields = format!("X-Api-Key: key-{number}\r\n");
            get(process.public, &format!("/api/{number}"), &fields);
            get(process.public, &format!("/unrouted/{number}"), &fields);
        }
    };
    // A refusal's series appears with the first refusal of that status and reason.
    send(0..1);
    let before = series(&process);
    send(1..51);
    assert_eq!(series(&process), before, "series that clients made");
    assert!(process.metric("tollgate_requests_total") >= 100);
}
