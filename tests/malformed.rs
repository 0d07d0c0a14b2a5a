//! What is not HTTP, or could be read in two ways, is refused before anyone else reads it.
//!
//! Behind each message waits `GET /smuggled`, which no origin may ever see.

mod support;

use support::ratelimit::remaining;
use support::{Client, Config, Origin, Running, get, start};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn limited(origin: &Origin) -> Running {
    start(&Config::limited(
        origin.url(),
        "quota = '1000 per hour'\npartition = []",
    ))
}

/// Sends each message and expects one refusal, a close, and nothing at the origin or the quota.
#[track_caller]
fn check_refused(messages: &[&[u8]], statuses: &[u16]) {
    let origin = Origin::plain();
    let running = limited(&origin);
    for message in messages {
        let shown = String::from_utf8_lossy(message);
        let mut client = Client::connect(running.public);
        client.send([message, SMUGGLED.as_bytes()].concat());
        let answer = client.try_answer();
        let answer = answer.unwrap_or_else(|error| panic!("{shown:?}: {error}"));
        assert!(
            statuses.contains(&answer.status),
            "{shown:?}: {}",
            answer.status
        );
        let rest = client.rest();
        assert_eq!(String::from_utf8_lossy(&rest), "", "after {shown:?}");
        let targets = origin.targets();
        assert!(
            targets.is_empty(),
            "{shown:?} reached the origin: {targets:?}"
        );
    }
    let answer = get(running.public, "/", "");
    assert_eq!(
        remaining(&answer, "p"),
        999,
        "refused messages spend nothing"
    );
}

/// Frames field lines as the head of a POST with a host.
fn post(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n\r\n")
}

fn bytes(messages: &[String]) -> Vec<&[u8]> {
    messages.iter().map(String::as_bytes).collect()
}

#[test]
fn transfer_codings_other_than_one_chunked_are_refused() {
    let messages = [
        "xchunked",
        "chunked, gzip",
        "chunked;q=1",
        "\"chunked\"",
        "\u{b}chunked",
        "identity",
        "chunked\r\nTransfer-Encoding: identity",
        "\r\n chunked",
    ];
    let mut messages = messages
        .map(|x| post(&format!("Transfer-Encoding: {x}")))
        .to_vec();
    messages.push(post("Transfer-Encoding : chunked"));
    messages.push("POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n".into());
    check_refused(&bytes(&messages), &[400, 501]);
}

#[test]
fn a_coding_besides_chunked_is_refused_and_not_dropped() {
    let messages = [
        "chunked, chunked",
        "gzip, chunked",
        "chunked\r\nTransfer-Encoding: chunked",
        "identity\r\nTransfer-Encoding: chunked",
        "gzip\r\nTransfer-Encoding: chunked",
    ];
    let messages = messages.map(|x| {
        let head = post(&format!("Transfer-Encoding: {x}"));
        format!("{head}3\r\nabc\r\n0\r\n\r\n")
    });
    check_refused(&bytes(&messages), &[400, 501]);
}

#[test]
fn lengths_that_can_be_read_in_two_ways_are_refused() {
    let messages = [
        "5\r\nContent-Length: 6",
        "5, 6",
        "+5",
        "-1",
        "0x5",
        "5_0",
        "1Z",
        "",
        "5 5",
        "18446744073709551616",
        "1e1",
    ];
    let messages = messages.map(|x| post(&format!("Content-Length: {x}")));
    check_refused(&bytes(&messages), &[400]);
}

#[test]
fn field_lines_that_are_not_fields_are_refused() {
    let messages = [
        "X: a\rTransfer-Encoding: chunked",
        "X: a\r\n folded",
        "X : a",
        ": v",
        "no colon here",
        "X: a\0b",
        "X: a\u{1}b",
        "X: a\u{7f}b",
        "X\u{1}: a",
        "X(y): a",
    ];
    let mut messages = messages.map(post).to_vec();
    messages.push("GET / HTTP/1.1\r\n Host: a.test\r\n\r\n".into());
    check_refused(&bytes(&messages), &[400]);
}

#[test]
fn a_host_that_is_missing_double_or_no_authority_is_refused() {
    let messages = [
        "X: no host",
        "Host: a.test\r\nHost: a.test",
        "Host: a.test\r\nHost: b.test",
        "Host: a.test, b.test",
        "Host: a b",
        "Host: a@b",
        "Host: a/b",
        "Host: a:99999",
        "Host: [::1",
        "Host:",
    ];
    let messages = messages.map(|x| format!("GET / HTTP/1.1\r\n{x}\r\n\r\n"));
    check_refused(&bytes(&messages), &[400]);
}

#[test]
fn request_lines_that_name_no_resource_here_are_refused() {
    let messages = [
        "GET a.test:80 HTTP/1.1",
        "GET * HTTP/1.1",
        "GET http://user:pass@a.test/ HTTP/1.1",
        "CONNECT a.test:80 HTTP/1.1",
        "G=(e) / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.32",
        "GET / HTTP/2.0",
        "GET / HTTP/4294967295.255",
        "GET /",
        "GET /\u{1} HTTP/1.1",
        "GET /a b HTTP/1.1",
    ];
    let messages = messages.map(|x| format!("{x}\r\nHost: a.test\r\n\r\n"));
    check_refused(&bytes(&messages), &[400, 405, 501, 505]);
}

#[test]
fn bytes_that_are_no_text_at_all_are_refused() {
    check_refused(
        &[
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\x00\x00\x00\x00\r\n\r\n",
            b"\xff\xfe / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        ],
        &[400],
    );
}

#[test]
fn a_message_with_both_framings_is_one_request_with_one_framing() {
    for fields in [
        "Content-Length: 6\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 6",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\nContent-Length: 6",
    ] {
        let origin = Origin::plain();
        let running = limited(&origin);
        let mut client = Client::connect(running.public);
        client.send(format!("{}0\r\n\r\n{SMUGGLED}", post(fields)));
        let status = client.answer().status;
        assert!(matches!(status, 200 | 400), "{fields}: {status}");
        client.assert_closed();
        // The origin reads bodies strictly: both framings at once would not be complete.
        for seen in origin.requests() {
            assert_eq!((seen.target(), seen.is_complete), ("/", true), "{fields}");
        }
        assert_eq!(
            origin.requests().len(),
            usize::from(status == 200),
            "{fields}"
        );
    }
}

#[test]
fn a_body_whose_chunks_are_broken_never_completes_at_the_origin() {
    for chunks in [
        "0x3\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "-0x0\r\n\r\n",
        "Z\r\nabc\r\n0\r\n\r\n",
        "\r\nabc\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFF0\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcXX0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3;a\rb\r\nabc\r\n0\r\n\r\n",
        "3;a\nabc\r\n0\r\n\r\n",
    ] {
        let origin = Origin::plain();
        let running = limited(&origin);
        let mut client = Client::connect(running.public);
        client.send(format!(
            "{}{chunks}{SMUGGLED}",
            post("Transfer-Encoding: chunked")
        ));
        let told = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(!told.contains("HTTP/1.1 200"), "{chunks:?}: {told}");
        for seen in origin.requests() {
            assert_eq!(
                (seen.target(), seen.is_complete),
                ("/", false),
                "{chunks:?}"
            );
        }
    }
}

#[test]
fn an_unlimited_flow_of_chunk_extensions_is_cut() {
    let origin = Origin::plain();
    let running = limited(&origin);
    let mut client = Client::connect(running.public);
    client.send(post("Transfer-Encoding: chunked"));
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(4096));
    // Somewhere in these 4 MiB the gateway stops reading.
    let _ = (0..1000).try_for_each(|_| client.wire.write(chunk.as_bytes()));
    let _ = client.wire.write(b"0\r\n\r\n");
    let told = String::from_utf8_lossy(&client.rest()).into_owned();
    assert!(!told.contains("HTTP/1.1 200"), "{told}");
    assert!(origin.requests().iter().all(|x| !x.is_complete));
}

#[test]
fn an_expectation_other_than_continue_is_a_417_or_ignored_but_never_hangs() {
    let running = start(&Config::to("builtin:echo").route("/*", ""));
    let status = Client::connect(running.public)
        .post("/", "Expect: miracles\r\n", "hello")
        .status;
    assert!(matches!(status, 200 | 417), "{status}");
}

#[test]
fn path_that_grows_beyond_a_target_when_normalised_is_refused() {
    let config = Config::to("builtin:echo").admin("127.0.0.1:0");
    let running = start(&config.route("/*", ""));
    let path = "|".repeat(30_000);
    assert_eq!(get(running.public, &format!("/{path}"), "").status, 400);
    let admin = running.gateway.admin_address().expect("an admin port");
    let metrics = get(admin, "/metrics", "").text();
    assert!(metrics.contains("tollgate_panics_total 0\n"), "{metrics}");
}
