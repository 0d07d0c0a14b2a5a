//! Requests that are held until they are read: within bounds, and only where that is needed.

use super::{RESERVING, origin};
use crate::support::ratelimit::remaining;
use crate::support::{Client, Config, Stepped, eventually, secs, start};

#[test]
fn bodies_are_held_within_bounds() {
    let origin = origin(&[]);
    let config = Config::limited(origin.url(), RESERVING).listener("max_buffered_bytes = '8KiB'");
    let running = start(&config.one_worker());
    let head = "POST /zero HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3000\r\n\r\n";
    let begun = "a".repeat(2990);
    let mut waiting: Vec<_> = (0..2).map(|_| Client::connect(running.public)).collect();
    for client in &mut waiting {
        client.send(format!("{head}{begun}"));
    }
    // A third body does not fit beside the first two.
    let mut third = Client::connect(running.public);
    let full = eventually("the others are held", || {
        let answer = third.post("/zero", "", &"a".repeat(3000));
        (answer.status == 503).then_some(answer)
    });
    assert!(
        full.problem()["detail"]
            .as_str()
            .is_some_and(|text| text.contains("being buffered"))
    );
    // A client that leaves spends nothing and gives its room back.
    drop(waiting.pop());
    let admitted = eventually("there is room again", || {
        let answer = Client::connect(running.public).post("/zero", "", &"a".repeat(3000));
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(1_000_000 - remaining(&admitted, "p"), 5000);
    waiting[0].send("a".repeat(10));
    assert_eq!(waiting[0].answer().status, 200);
}

#[test]
fn a_body_that_is_read_before_the_decision_must_be_whole_in_time() {
    let origin = origin(&[]);
    let config = Config::to(origin.url())
        .policy("p", RESERVING)
        .route("/*", "policies = ['p']")
        .listener("body_timeout = '30s'");
    let running = Stepped::start(&config);
    let mut slow = Client::connect(running.public);
    slow.send("POST /zero HTTP/1.1\r\nHost: a.test\r\nContent-Length: 18\r\n\r\n{\"max");
    for piece in ["_tok", "ens"] {
        running.advance(secs(14));
        assert!(slow.is_silent(), "early");
        slow.send(piece);
        running.settle();
    }
    running.advance(secs(2));
    assert_eq!(slow.answer().status, 408);
    let answer = Client::connect(running.public).post("/zero", "", "{\"max_tokens\":0}");
    assert_eq!(remaining(&answer, "p"), 1_000_000 - 8, "it spent nothing");
}

#[test]
fn a_policy_that_refuses_nobody_reserves_the_default_for_what_cannot_be_held() {
    for mode in ["shadow", "mark"] {
        let origin = origin(&[]);
        let config = Config::to(origin.url())
            .policy("p", &format!("{RESERVING}\nmode = '{mode}'"))
            .route("/*", "policies = ['p']")
            .listener("body_timeout = '30s'\nmax_buffered_bytes = '1KiB'");
        let running = Stepped::start(&config);
        let mut client = Client::connect(running.public);
        let long = format!("{{\"max_tokens\":9000,\"a\":\"{}\"}}", "a".repeat(3000));
        let head = "POST /zero HTTP/1.1\r\nHost: a.test\r\nContent-Length: 17\r\n\r\n";
        assert_eq!(client.post("/zero", "", &long).status, 200, "{mode}");
        client.send(format!("{head}{{\"max"));
        for piece in ["_tok", "ens"] {
            running.advance(secs(14));
            client.send(piece);
            running.settle();
        }
        running.advance(secs(3));
        let answer = client.ask("\":0} ");
        assert_eq!(answer.status, 200, "{mode}");
        let bodies: Vec<_> = origin
            .requests()
            .into_iter()
            .map(|request| request.body)
            .collect();
        assert_eq!(bodies, [long.as_bytes(), b"{\"max_tokens\":0} "], "{mode}");
        if mode == "mark" {
            assert_eq!(remaining(&answer, "p"), 1_000_000 - 5000);
        }
    }
}

#[test]
fn a_request_that_reserves_nothing_is_not_delayed() {
    let origin = origin(&[]);
    let policy = format!(
        "{RESERVING}\noverrides_by = 'header:x-plan'\noverrides = {{ free = 'unlimited' }}"
    );
    let config = Config::to(origin.url())
        .policy("p", &policy)
        .policy("counted", "quota = '100 per hour'")
        .route("/*", "policies = ['p', 'counted']")
        .listener("max_buffered_bytes = '1KiB'");
    let running = start(&config);
    let mut client = Client::connect(running.public);
    let body = "a".repeat(3000);
    assert_eq!(client.post("/zero", "", &body).status, 503);
    let mut client = Client::connect(running.public);
    assert_eq!(client.post("/zero", "X-Plan: free\r\n", &body).status, 200);
}

#[test]
fn a_megabyte_of_a_request_is_read_and_no_more() {
    let origin = origin(&[]);
    let policy = RESERVING.replace("\nmax_reserve_body = '4KiB'", "");
    let policy = policy.replace("times = 0.5", "times = 0");
    let running = start(&Config::limited(origin.url(), &policy).one_worker());
    let mut client = Client::connect(running.public);
    let (begin, end) = ("{\"a\":\"", "\",\"max_tokens\":9000}");
    let fits = (1 << 20) - begin.len() - end.len();
    for (padding, reserved) in [(fits, 9000), (fits + 1, 9000), (fits + (1 << 20), 5000)] {
        let body = format!("{begin}{}{end}", "a".repeat(padding));
        let answer = client.post("/zero", "", &body);
        assert_eq!(1_000_000 - remaining(&answer, "p"), reserved, "{padding}");
        let seen = origin.requests().pop().expect("a request");
        assert_eq!(seen.body.len(), body.len());
    }
}

#[test]
fn only_what_a_policy_reads_itself_can_refuse_a_request() {
    let bytes = "quota = '1000000 per hour'\nalgorithm = 'fixed-window'\npartition = []\n\
                 cost = 'response-json:/usage/total_tokens'\nreserve = 'request-bytes'\n\
                 reserve_default = 9000";
    let free = "overrides_by = 'header:x-plan'\noverrides = { free = 'unlimited' }";
    let small = RESERVING.replace("max_reserve_body = '4KiB'", "max_reserve_body = '1KiB'");
    let shadow = RESERVING.replace("\nmax_reserve_body = '4KiB'", "\nmode = 'shadow'");
    // The enforced policy needs only the length, or little of the body; the other never refuses, or grants everything.
    for (enforced, other, fields, length, reserved) in [
        (bytes, &*shadow, "", 3000, 3000),
        (
            bytes,
            &format!("{RESERVING}\n{free}"),
            "X-Plan: free\r\n",
            3000,
            3000,
        ),
        (&small, &shadow, "", 100_000, 50_000),
    ] {
        let origin = origin(&[]);
        let config = Config::to(origin.url())
            .policy("p", enforced)
            .policy("other", other)
            .route("/*", "policies = ['p', 'other']")
            .listener("max_buffered_bytes = '1KiB'");
        let running = start(&config);
        let answer = Client::connect(running.public).post("/zero", fields, &"a".repeat(length));
        assert_eq!(answer.status, 200, "{enforced}\n{other}");
        assert_eq!(1_000_000 - remaining(&answer, "p"), reserved, "{enforced}");
        let seen = origin.requests().pop().expect("a request");
        assert_eq!(seen.body.len(), length);
    }
}

#[test]
fn a_request_that_is_longer_than_is_read_needs_no_room_for_the_rest() {
    let origin = origin(&[]);
    let config = Config::limited(origin.url(), RESERVING).listener("max_buffered_bytes = '4KiB'");
    let running = start(&config);
    let mut client = Client::connect(running.public);
    for (length, reserved) in [(4096, 5000), (4097, 5000), (1 << 20, (1 << 19))] {
        let answer = client.post("/zero", "", &"a".repeat(length));
        assert_eq!(answer.status, 200, "{length}");
        assert_eq!(1_000_000 - remaining(&answer, "p"), reserved, "{length}");
    }
}

#[test]
fn a_stranger_is_refused_before_the_length_of_its_request() {
    let origin = origin(&[]);
    for policy in [RESERVING, "quota = '100 per hour'"] {
        let policy = policy.replace("partition = []", "");
        let policy = format!(
            "{policy}\npartition = ['header:x-api-key']\non_missing = 'refuse'\noverrides = {{ b = 'blocked' }}"
        );
        let config = Config::limited(origin.url(), &policy).listener("max_body_bytes = 100");
        let running = start(&config);
        let body = "a".repeat(101);
        for (key, status) in [
            ("", 401),
            ("X-Api-Key: b\r\n", 403),
            ("X-Api-Key: a\r\n", 413),
        ] {
            let answer = Client::connect(running.public).post("/zero", key, &body);
            assert_eq!(answer.status, status, "{key}");
        }
    }
    assert!(origin.requests().is_empty());
}
