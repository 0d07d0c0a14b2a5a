//! The access log: one line per request, formatted by the worker and written by nobody who serves.
//!
//! A worker formats records into a block of its own; a block that is full, or that
//! [`Writer::flush`] finds a few times a second, goes to the log's [`Output`]. Per request that is
//! a copy of bytes: no allocation, no wake, no system call. Lines the output cannot take are
//! dropped and counted there.
//!
//! Which of a client's values are shown in clear is decided by whoever fills the [`Entry`].

mod line;

use std::cell::RefCell;

use crate::clock::Timestamp;
use crate::fault::Reason;
use crate::logging::{Block, Output};
use crate::metrics::Outcome;
use crate::snapshot::{AccessLog, LogFormat};
use line::Line;

/// Everything that the access log says of a request.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When the request's head was complete.
    pub at: Timestamp,
    /// The listener's name.
    pub listener: &'a str,
    /// The client in the form that may be shown.
    pub client: &'a [u8],
    /// Whose quota it was, in the form that may be shown; empty if the client's address says it.
    pub partition: &'a [u8],
    /// The method; empty if the head never became a request, of which only the sender and the
    /// reason are known.
    pub method: &'a [u8],
    /// The host asked for; empty if there was none.
    pub host: &'a [u8],
    /// The path, without its query.
    pub path: &'a [u8],
    /// The route's name, if one matched.
    pub route: Option<&'a str>,
    /// The status; none if the client left before it was answered.
    pub status: Option<u16>,
    /// What each policy of the route did, in order.
    pub policies: &'a [(&'a str, Outcome)],
    /// Units left in the quota with the smallest share left.
    pub remaining: Option<u64>,
    /// Units the request spent, if any policy applied.
    pub cost: Option<u64>,
    /// What went wrong, if anything did.
    pub reason: Option<Reason>,
    /// The endpoint that failed, if one did.
    pub endpoint: Option<&'a str>,
    /// Why it failed, or why none could be asked.
    pub cause: Option<&'a str>,
    /// From the end of the request's head to the end of the answer, in microseconds.
    pub duration_us: u64,
    /// From the request's being sent to the upstream's head, in microseconds.
    pub upstream_us: Option<u64>,
    /// How long the request was held, in microseconds.
    pub held_us: Option<u64>,
    /// Bytes of the answer's body that were sent.
    pub sent_bytes: u64,
    /// Whether a decision was made without the store it should have come from.
    pub is_degraded: bool,
}

/// A worker's end of the access log.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    block: RefCell<Block>,
}

impl Writer {
    /// Makes a worker's writer.
    pub fn new(output: Output) -> Self {
        Self {
            output,
            block: RefCell::new(empty_block()),
        }
    }

    /// Notes a request, if `access` wants it.
    pub fn record(&self, access: AccessLog, format: LogFormat, entry: &Entry<'_>) {
        if !entry.is_wanted(access) {
            return;
        }
        let mut block = self.block.borrow_mut();
        entry.write(&mut block.bytes, format);
        block.lines += 1;
        if block.bytes.len() >= BLOCK_BYTES {
            self.output.access(block.replace_with_empty());
        }
    }

    /// Hands over what has gathered; called a few times a second and at the worker's end.
    pub fn flush(&self) {
        let mut block = self.block.borrow_mut();
        if block.lines > 0 {
            self.output.access(block.replace_with_empty());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Entry<'_> {
    /// Says whether the access log has this request.
    fn is_wanted(&self, access: AccessLog) -> bool {
        match access {
            AccessLog::All => true,
            AccessLog::Refused => self.reason.is_some_and(Reason::is_refusal),
            AccessLog::Off => false,
        }
    }

    /// Adds the record's line to `out`.
    pub fn write(&self, out: &mut Vec<u8>, format: LogFormat) {
        let mut line = Line::new(out, format, self.at);
        line.text("listener", self.listener.as_bytes());
        line.text("client", self.client);
        if !self.partition.is_empty() {
            line.text("partition", self.partition);
        }
        let is_request = !self.method.is_empty();
        if is_request {
            line.text("method", self.method);
            line.text("host", self.host);
            line.long_text("path", self.path);
        }
        line.optional_text("route", self.route);
        line.optional_number("status", self.status.map(u64::from));
        line.optional_text("reason", self.reason.map(Reason::word));
        line.optional_text("fault", self.reason.map(|reason| reason.fault().word()));
        line.optional_text("endpoint", self.endpoint);
        line.optional_text("cause", self.cause);
        if !self.policies.is_empty() {
            let names = self.policies.iter().map(|(name, _)| *name);
            line.list("policies", names);
            line.text("decision", self.decision().word().as_bytes());
            self.write_policies(&mut line, Outcome::Refused, "refused_by");
            self.write_policies(&mut line, Outcome::Unidentified, "unidentified_by");
            self.write_policies(&mut line, Outcome::ShadowRefused, "shadow_refused_by");
        }
        line.optional_number("remaining", self.remaining);
        line.optional_number("cost", self.cost);
        if is_request {
            line.number("duration_us", self.duration_us);
            line.optional_number("upstream_us", self.upstream_us);
            line.optional_number("held_us", self.held_us);
            line.number("sent_bytes", self.sent_bytes);
        }
        if self.is_degraded {
            line.truth("degraded");
        }
        line.end();
    }

    /// What the policies together did: refused if one refused, unanswered if one could not be asked.
    fn decision(&self) -> Outcome {
        let any = |wanted| self.policies.iter().any(|(_, outcome)| *outcome == wanted);
        if any(Outcome::Refused) {
            Outcome::Refused
        } else if any(Outcome::Unidentified) {
            Outcome::Unidentified
        } else if any(Outcome::Unanswered) {
            Outcome::Unanswered
        } else if self.policies.iter().all(|(_, o)| *o == Outcome::Skipped) {
            Outcome::Skipped
        } else {
            Outcome::Admitted
        }
    }

    /// Lists the policies with this outcome, if there are any.
    fn write_policies(&self, line: &mut Line<'_>, outcome: Outcome, key: &str) {
        let with = self.policies.iter().filter(|(_, one)| *one == outcome);
        if with.clone().next().is_some() {
            line.list(key, with.map(|(name, _)| *name));
        }
    }
}

impl Block {
    fn replace_with_empty(&mut self) -> Self {
        std::mem::replace(self, empty_block())
    }
}

fn empty_block() -> Block {
    Block {
        bytes: Vec::with_capacity(BLOCK_BYTES + LINE_BYTES),
        lines: 0,
    }
}

/// Bytes at which a block is handed over.
const BLOCK_BYTES: usize = 8 * 1024;

/// Room for one more ordinary line, so that a block is allocated once.
const LINE_BYTES: usize = 2 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const ENTRY: Entry<'static> = Entry {
        at: Timestamp(1_795_213_610_000_042),
        listener: "public",
        client: b"203.0.113.9",
        partition: b"",
        method: b"GET",
        host: b"example.com",
        path: b"/v1/items",
        route: None,
        status: None,
        policies: &[],
        remaining: None,
        cost: None,
        reason: None,
        endpoint: None,
        cause: None,
        duration_us: 250,
        upstream_us: None,
        held_us: None,
        sent_bytes: 0,
        is_degraded: false,
    };

    const REFUSED: Entry<'static> = Entry {
        route: Some("GET /v1/*"),
        status: Some(429),
        policies: &[
            ("per-client", Outcome::Admitted),
            ("global", Outcome::Refused),
            ("trial", Outcome::ShadowRefused),
        ],
        remaining: Some(0),
        cost: Some(1),
        reason: Some(Reason::QuotaExceeded),
        upstream_us: Some(200),
        held_us: Some(10),
        sent_bytes: 197,
        is_degraded: true,
        ..ENTRY
    };

    fn line(format: LogFormat, entry: &Entry<'_>) -> String {
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
             \"host\":\"example.com\",\"path\":\"/v1/items\",\"duration_us\":250,\
             \"sent_bytes\":0}\n"
        );
        assert_eq!(
            line(LogFormat::Json, &REFUSED),
            "{\"timestamp\":\"2026-11-20T22:26:50.000042Z\",\"target\":\"access\",\
             \"listener\":\"public\",\"client\":\"203.0.113.9\",\"method\":\"GET\",\
             \"host\":\"example.com\",\"path\":\"/v1/items\",\"route\":\"GET /v1/*\",\
             \"status\":429,\"reason\":\"quota_exceeded\",\"fault\":\"client\",\
             \"policies\":[\"per-client\",\"global\",\"trial\"],\"decision\":\"refused\",\
             \"refused_by\":[\"global\"],\"shadow_refused_by\":[\"trial\"],\"remaining\":0,\
             \"cost\":1,\"duration_us\":250,\"upstream_us\":200,\"held_us\":10,\
             \"sent_bytes\":197,\"degraded\":true}\n"
        );
    }

    #[test]
    fn text_line_says_the_same() {
        assert_eq!(
            line(LogFormat::Text, &REFUSED),
            "2026-11-20T22:26:50.000042Z access listener=public client=203.0.113.9 method=GET \
             host=example.com path=/v1/items route=\"GET /v1/*\" status=429 reason=quota_exceeded \
             fault=client policies=per-client,global,trial decision=refused refused_by=global \
             shadow_refused_by=trial remaining=0 cost=1 duration_us=250 upstream_us=200 \
             held_us=10 sent_bytes=197 degraded=true\n"
        );
    }

    #[test]
    fn line_of_a_head_that_never_became_a_request_says_who_sent_it_and_why_it_was_refused() {
        let entry = Entry {
            method: b"",
            status: Some(400),
            reason: Some(Reason::Syntax),
            ..ENTRY
        };
        assert_eq!(
            line(LogFormat::Text, &entry),
            "2026-11-20T22:26:50.000042Z access listener=public client=203.0.113.9 status=400 \
             reason=syntax fault=client\n"
        );
    }

    #[test]
    fn hostile_bytes_stay_within_their_field_and_line() {
        let long = [b'a'; 5000];
        for (sent, shown) in [
            (
                &b"/a\r\n{\"status\":200}"[..],
                "/a\r\n{\"status\":200}".to_owned(),
            ),
            (b"/\"\\\t\x00\x1f\x7f", "/\"\\\t\0\u{1f}\u{7f}".to_owned()),
            (b"/\x1b[2J", "/\u{1b}[2J".to_owned()),
            (b"/\xff\xc0\xaf", "/\u{fffd}\u{fffd}\u{fffd}".to_owned()),
            (
                "/ü\u{85}\u{2028}\u{202e}".as_bytes(),
                "/ü\u{85}\u{2028}\u{202e}".to_owned(),
            ),
            ("/\u{10ffff}".as_bytes(), "/\u{10ffff}".to_owned()),
            (&long, "a".repeat(line::LONG_TEXT_BYTES_MAX) + "…"),
        ] {
            let entry = Entry {
                path: sent,
                ..ENTRY
            };
            let json = line(LogFormat::Json, &entry);
            let fields: Value = serde_json::from_str(&json).expect("one JSON object");
            assert_eq!(fields["path"], json!(shown));
            for text in [json, line(LogFormat::Text, &entry)] {
                let printable = |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{202e}');
                let one_line = text.strip_suffix('\n').expect("a newline at the end");
                assert!(one_line.chars().all(printable), "{text:?}");
            }
        }
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
            let text = line(LogFormat::Text, &Entry { path, ..ENTRY });
            let expected = format!("host=example.com path={shown} duration_us=250");
            assert!(text.contains(&expected), "{text}");
        }
    }

    #[test]
    fn refused_only_log_has_refusals_and_no_broken_off_answers() {
        let wanted = |reason| {
            let entry = Entry { reason, ..ENTRY };
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
        let output = Output::open(Some(&file)).expect("a log file");
        let writer = Writer::new(output.clone());
        for duration_us in 0..100 {
            let entry = Entry {
                duration_us,
                ..ENTRY
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
}
