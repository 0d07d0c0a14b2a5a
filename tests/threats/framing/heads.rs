//! Lines and bytes of a head that are no field, no name, no value or no host.

use super::bench::Bench;
use super::{Row, SMUGGLED, post, rejected, rows};

/// Returns a GET whose host is `host`, byte for byte.
fn hosted(host: &[u8]) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost:", host, b"\r\n\r\n"].concat()
}

/// Returns the control characters, except tab and line ends: no text of HTTP may have them.
fn controls() -> impl Iterator<Item = u8> {
    let all = (0..=0x1f).chain([0x7f]);
    all.filter(|byte| !b"\t\r\n".contains(byte))
}

#[test]
fn a_carriage_return_that_ends_no_line_is_refused() {
    let mut messages = [
        "X: a\rTransfer-Encoding: chunked",
        "X: a\r\rTransfer-Encoding: chunked",
        "X:\rTransfer-Encoding: chunked",
        "X: a\r",
        "X\r: a",
        "\rX: a",
        "X: a\r Y: b",
    ]
    .map(post)
    .to_vec();
    messages.extend([
        b"GET / HTTP/1.1\rHost: a.test\r\n\r\n".into(),
        b"GET / HTTP/1.1\r\nHost: a.test\r\r\n\r\n".into(),
        b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\r\n".into(),
        b"GET /\rx HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
        b"\rGET / HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
    ]);
    rejected(&rows(&messages, 400, "syntax"));
}

#[test]
fn a_line_feed_without_its_carriage_return_is_refused() {
    let messages: [&[u8]; 12] = [
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\nHost: a.test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.test\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.test\r\n\n",
        b"GET / HTTP/1.1\r\nHost: a.test\n\n",
        b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\nY: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a.test\r\nX:\n\r\n",
        b"GET / HTTP/1.0\n\n",
        b"\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"\r\n\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\n\r\nabc",
    ];
    rejected(&rows(&messages, 400, "syntax"));
}

#[test]
fn a_line_feed_without_its_carriage_return_is_refused_behind_good_requests_too() {
    let bare = "GET /bare HTTP/1.1\nHost: a.test\n\n";
    let chunked = "POST /1 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (good, body) in [
        ("GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), ""),
        (
            // Line feeds are allowed in a body.
            "POST /1 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n\na\n\r\n".to_owned(),
            "\na\n\r\n",
        ),
        (
            format!("{chunked}3;x=\"\\\"\"\r\n\n\n\n\r\n1 ;y\r\n\n\r\n0\r\nX: y\r\n\r\n"),
            "\n\n\n\n",
        ),
    ] {
        for pieces in [1, 2, 7, 1000] {
            let bench = Bench::new();
            let mut client = bench.client();
            for piece in format!("{good}{bare}{SMUGGLED}").as_bytes().chunks(pieces) {
                client.send(piece);
            }
            assert_eq!(client.answer().status, 200, "{good:?}");
            let refused = client.answer();
            assert_eq!(
                (refused.status, refused.says_close()),
                (400, true),
                "{good:?}"
            );
            client.assert_closed();
            let seen = bench.origin.only_request();
            assert_eq!(
                (seen.target(), &*seen.body),
                ("/1", body.as_bytes()),
                "{good:?}"
            );
        }
    }
}

#[test]
fn what_follows_a_refused_head_that_came_with_a_request_resets_nothing() {
    for bare in ["GET /bare HTTP/1.1\nHost: a.test\n\n", "GET /bare\n\n"] {
        let bench = Bench::new();
        let mut client = bench.client();
        client.send(format!("GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n{bare}"));
        assert_eq!(client.answer().status, 200);
        assert_eq!(client.answer().status, 400);
        client.assert_closed();
        // If the gateway closed such a connection without lingering, it would have done so by the time it answers this.
        bench.series();
        for _ in 0..3 {
            client.send(SMUGGLED);
        }
        assert_eq!(bench.origin.targets(), ["/1"]);
    }
}

#[test]
fn lines_that_are_no_field_are_refused() {
    let lines = [
        "X: a\r\n b",
        "X: a\r\n\tb",
        "X: a\r\n \r\nY: b",
        "X:\r\n a",
        "X : a",
        "X\t: a",
        ": v",
        ":",
        " : v",
        "no colon here",
        "\tCL: 1",
        " X: a",
        "\tContent-Length: 1",
        " Transfer-Encoding: chunked",
    ];
    let mut messages = lines.map(post).to_vec();
    messages.extend([
        b"GET / HTTP/1.1\r\n Host: a.test\r\n\r\n".into(),
        b"GET / HTTP/1.1\r\n\tHost: a.test\r\n\r\n".into(),
        b"GET / HTTP/1.1\r\nHost : a.test\r\n\r\n".into(),
        b"GET / HTTP/1.1\r\n \r\nHost: a.test\r\n\r\n".into(),
        b" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
        b"GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n".into(),
    ]);
    rejected(&rows(&messages, 400, "syntax"));
}

#[test]
fn bytes_that_a_name_cannot_have_are_refused() {
    let separators = b"\"(),/;<=>?@[\\]{} \t\x85\xa0\xff".iter().copied();
    let names = controls().chain(separators).map(|byte| {
        let name = [b"X", &[byte][..], b"Y: a"].concat();
        post(name)
    });
    let names: Vec<_> = names.chain([post("X\nY: a")]).collect();
    rejected(&rows(&names, 400, "syntax"));
}

#[test]
fn bytes_that_a_value_cannot_have_are_refused() {
    let values = controls().map(|byte| post([b"X: a", &[byte][..], b"b"].concat()));
    let values: Vec<_> = values.chain([post("X: a\nb")]).collect();
    rejected(&rows(&values, 400, "syntax"));
}

#[test]
fn bytes_that_a_host_cannot_have_are_refused() {
    let hosts = controls().map(|byte| hosted(&[b" a", &[byte][..], b"b"].concat()));
    let mut table: Vec<Row> = rows(&hosts.collect::<Vec<_>>(), 400, "syntax");
    // A value may contain these, but a host may not.
    let others = b"\t \"#%<>?@[\\]^`{|}!$&'()*+,;=\x80\x85\xa0\xff".iter();
    let others = others.map(|byte| hosted(&[b" a", &[*byte][..], b"b"].concat()));
    table.extend(rows(&others.collect::<Vec<_>>(), 400, "bad_host"));
    rejected(&table);
}

#[test]
fn bytes_that_are_no_text_at_all_are_refused() {
    let messages: [&[u8]; 4] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x00\r\n\r\n",
        b"\xff\xfe / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"\x80.\x01\x03\x01\x00\x15",
    ];
    rejected(&rows(&messages, 400, "syntax"));
}

#[test]
fn a_host_that_is_missing_double_or_no_authority_is_refused() {
    let heads = [
        "X: no host",
        "Host: a.test\r\nHost: a.test",
        "Host: a.test\r\nHost: b.test",
        "Host: a.test\r\nX: y\r\nhOST: b.test",
        "Host:\r\nHost: a.test",
        "Host: a.test, b.test",
        "Host: a,b",
        "Host: a b",
        "Host: a@b",
        "Host: u:p@a",
        "Host: a/b",
        "Host: a/",
        "Host: http://a",
        "Host: a:99999",
        "Host: a:65536",
        "Host: a:-1",
        "Host: a:+80",
        "Host: a:80:80",
        "Host: a:x",
        "Host: [::1",
        "Host: ::1",
        "Host: [::1]x",
        "Host: [::1%25lo]",
        "Host: [::1%eth0]",
        "Host: .a",
        "Host: a..b",
        "Host: .",
        "Host: *",
        "Host: %61",
        "Host:",
        "Host: ",
    ];
    let heads = heads.map(|lines| format!("GET / HTTP/1.1\r\n{lines}\r\n\r\n"));
    let mut table = rows(&heads, 400, "bad_host");
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(256));
    table.extend(rows(&[long], 400, "bad_host"));
    table.extend(rows(
        &[
            "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\nHost:\r\n\r\n",
        ],
        400,
        "bad_host",
    ));
    rejected(&table);
}
