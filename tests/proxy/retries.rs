//! Which requests are sent twice: those of which nothing was sent, and repeatable ones whose connection broke before
//! any byte of an answer. The retry goes to another endpoint if there is one, and the request is charged once.

use std::collections::HashSet;
use std::io::Result;
use std::sync::{Arc, Mutex};

use tollgate::clock::Micros;

use crate::support::ratelimit::remaining;
use crate::support::{
    After, Answer, Client, Config, Exchange, Metered, Origin, Recorded, Refusing, Running, Stepped,
    Unreachable, secs, start,
};
use crate::upstream_faults::{each_connection, reset};

/// What an origin does with a request when that is first seen by any origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Sends these bytes, and ends the connection.
    Ends(&'static str, End),
    Answers(&'static str),
    Stalls,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    HalfClose,
    Reset,
}

const ENDS: [End; 3] = [End::Close, End::HalfClose, End::Reset];

impl Fault {
    /// Returns the status that the client gets if the request is not sent again.
    fn status(self) -> u16 {
        match self {
            Self::Answers(answer) if answer.starts_with("HTTP/1.1 503") => 503,
            Self::Ends(..) | Self::Answers(_) => 502,
            Self::Stalls => 504,
        }
    }

    fn act(self, exchange: &mut Exchange) -> Result<After> {
        match self {
            Self::Ends(beginning, end) => {
                exchange.write(beginning)?;
                match end {
                    End::Close => {}
                    End::HalfClose => {
                        exchange.wire.finish_writing();
                        exchange.until_closed();
                    }
                    End::Reset => reset(exchange),
                }
            }
            Self::Answers(answer) => {
                exchange.write(answer)?;
                return Ok(After::Keep);
            }
            Self::Stalls => exchange.until_closed(),
        }
        Ok(After::Close)
    }
}

/// Whether requests find kept connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    Fresh,
    Kept,
}

/// Origins of which the first to see a target `/x/…` fails, while every later attempt is answered.
struct Origins(Vec<Origin>);

impl Origins {
    fn new(count: usize, fault: Fault, connections: Connections) -> Self {
        let seen = Arc::new(Mutex::new(HashSet::new()));
        let origin = |_| {
            let seen = Arc::clone(&seen);
            Origin::scripted(move |exchange| {
                exchange.read_body()?;
                let target = exchange.target();
                let is_first = seen
                    .lock()
                    .expect("nothing panics")
                    .insert(target.to_owned());
                if is_first && target.starts_with("/x/") {
                    return fault.act(exchange);
                }
                match connections {
                    Connections::Kept => exchange.write(OK)?,
                    Connections::Fresh => exchange.write(LAST)?,
                }
                Ok(After::Keep)
            })
        };
        Self((0..count).map(origin).collect())
    }

    fn config(&self, upstream: &str) -> Config {
        let urls: Vec<String> = self.0.iter().map(Origin::url).collect();
        Config::limited("", QUOTA)
            .endpoints(&urls)
            .upstream(upstream)
            .one_worker()
    }

    /// Returns the requests for that target with the index of each one's origin, in the order of the origins.
    fn seen(&self, target: &str) -> Vec<(usize, Recorded)> {
        let seen = self.0.iter().enumerate().flat_map(|(index, origin)| {
            let requests = origin.requests().into_iter();
            let of_target = requests.filter(|request| request.target() == target);
            of_target.map(move |request| (index, request))
        });
        seen.collect()
    }

    /// Whether a request came over a connection that had carried another one before.
    fn was_kept(&self, (origin, request): &(usize, Recorded)) -> bool {
        let requests = self.0[*origin].requests();
        let on_it = requests
            .iter()
            .filter(|one| one.connection == request.connection);
        on_it
            .take_while(|on_it| on_it.target() != request.target())
            .count()
            > 0
    }
}

/// Returns each method with each body.
fn cases() -> impl Iterator<Item = (&'static str, &'static str)> {
    METHODS
        .iter()
        .flat_map(|method| BODIES.map(|body| (*method, body)))
}

/// Sends a request, and reads its answer, which has no body after HEAD.
fn ask(client: &mut Client, method: &str, target: &str, body: &str) -> Answer {
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a.test\r\n{body}"
    ));
    match method {
        "HEAD" => client.answer_to_head(),
        _ => client.answer(),
    }
}

/// Has each origin answer once: so there are kept connections to all of them, if connections are kept at all, and none
/// fails several times in a row. Moves the clock on, which fills the retry budget.
fn warm(running: &Running, origins: usize) {
    running.clock.advance(secs(1));
    for _ in 0..origins {
        let answer = Client::connect(running.public).get("/warm", "");
        assert_eq!(answer.status, 200);
    }
}

/// Sends a request of each kind, and fails unless exactly those that `is_sent_again` names are sent again.
#[track_caller]
fn check(fault: Fault, connections: Connections, is_sent_again: impl Fn(&str, &str) -> bool) {
    let origins = Origins::new(2, fault, connections);
    let running = start(&origins.config(""));
    let mut failed = Vec::new();
    for (index, (method, body)) in cases().enumerate() {
        warm(&running, 2);
        let mut client = Client::connect(running.public);
        let before = remaining(&client.get("/warm", ""), "p");
        let target = format!("/x/{index}");
        let answer = ask(&mut client, method, &target, body);
        let spent = before - remaining(&Client::connect(running.public).get("/warm", ""), "p");
        let seen = origins.seen(&target);
        let endpoints: HashSet<_> = seen.iter().map(|(origin, _)| origin).collect();
        // The second attempt may use a fresh connection.
        let is_kept = seen.iter().any(|seen| origins.was_kept(seen));
        let found = (answer.status, seen.len(), endpoints.len(), spent, is_kept);
        let expects_kept = connections == Connections::Kept;
        let expected = if is_sent_again(method, body) {
            (200, 2, 2, 2, expects_kept)
        } else {
            (fault.status(), 1, 1, 2, expects_kept)
        };
        if found != expected {
            failed.push(format!(
                "{method} {body:?}: {found:?} instead of {expected:?}"
            ));
        }
    }
    assert!(failed.is_empty(), "{fault:?} {connections:?}: {failed:#?}");
}

#[test]
fn request_whose_connection_broke_is_sent_again_if_it_may_be_done_twice_and_has_no_body() {
    let is_sent_again = |method: &str, body: &str| {
        let may_be_done_twice = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"].contains(&method);
        may_be_done_twice && !body.contains("body")
    };
    for connections in [Connections::Fresh, Connections::Kept] {
        for end in ENDS {
            check(Fault::Ends("", end), connections, is_sent_again);
        }
    }
}

#[test]
fn request_is_never_sent_again_after_a_byte_of_an_answer_or_a_status() {
    for connections in [Connections::Fresh, Connections::Kept] {
        let beginnings = [
            "H",
            "\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
        ];
        for beginning in beginnings {
            for end in ENDS {
                check(Fault::Ends(beginning, end), connections, |_, _| false);
            }
        }
        for fault in [
            Fault::Answers("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
            Fault::Answers("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"),
        ] {
            check(fault, connections, |_, _| false);
        }
    }
}

#[test]
fn request_is_never_sent_again_after_a_timeout() {
    for connections in [Connections::Fresh, Connections::Kept] {
        let origins = Origins::new(2, Fault::Stalls, connections);
        let config = origins
            .config("")
            .route("/x/*", "policies = ['p']\nresponse_timeout = '2s'");
        let running = Stepped::start(&config);
        warm(&running, 2);
        let mut client = Client::connect(running.public);
        let before = remaining(&client.get("/warm", ""), "p");
        client.send("GET /x/0 HTTP/1.1\r\nHost: a.test\r\n\r\n");
        while origins.seen("/x/0").is_empty() {
            running.settle();
        }
        running.advance(secs(2));
        assert_eq!(client.answer().status, 504);
        assert_eq!(before - remaining(&client.get("/warm", ""), "p"), 2);
        assert_eq!(origins.seen("/x/0").len(), 1, "{connections:?}");
    }
}

#[test]
fn request_of_which_nothing_was_sent_goes_elsewhere_whatever_it_is() {
    let refusing = Refusing::new();
    let hanging_up = format!("https://{}", each_connection(|_| Ok(())));
    for bad in [refusing.url(), hanging_up] {
        let good = Origin::plain();
        let config = Config::limited("", QUOTA).endpoints(&[bad.clone(), good.url()]);
        let running = start(&config.one_worker());
        let mut client = Client::connect(running.public);
        let mut asked = 0;
        for (method, body) in cases() {
            // An endpoint that fails several times in a row is left out; this brings it back.
            running.clock.advance(secs(11));
            // One of the two requests starts at the endpoint to which no connection succeeds.
            for _ in 0..2 {
                asked += 1;
                let answer = ask(&mut client, method, "/", body);
                assert_eq!(answer.status, 200, "{method} {body:?} after {bad}");
                assert_eq!(remaining(&answer, "p"), 1000 - asked);
                assert_eq!(i64::try_from(good.requests().len()), Ok(asked));
            }
        }
    }
}

#[test]
fn request_that_waits_for_a_connection_in_vain_goes_elsewhere() {
    let (unreachable, good) = (Unreachable::new(), Origin::plain());
    let config = Config::to("")
        .endpoints(&[unreachable.url(), good.url()])
        .upstream("connect_timeout = '1s'")
        .route("/*", "");
    let running = Stepped::start(&config);
    for asked in 1..=4 {
        let mut client = Client::connect(running.public);
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody");
        running.advance(secs(1));
        assert_eq!(client.answer().status, 200);
        assert_eq!(good.requests().len(), asked);
    }
}

#[test]
fn lone_endpoint_is_asked_again_itself() {
    for connections in [Connections::Fresh, Connections::Kept] {
        let origins = Origins::new(1, Fault::Ends("", End::Close), connections);
        let running = start(&origins.config(""));
        warm(&running, 1);
        let answer = Client::connect(running.public).get("/x/0", "");
        assert_eq!((answer.status, remaining(&answer, "p")), (200, 998));
        assert_eq!(origins.seen("/x/0").len(), 2, "{connections:?}");
    }
}

#[test]
fn request_is_tried_once_and_as_often_again_as_the_file_says_each_time_elsewhere() {
    let hang_up = |exchange: &mut Exchange| match exchange.target() {
        "/warm" => exchange.write(OK).map(|()| After::Keep),
        _ => Ok(After::Close),
    };
    for (count, retries) in [(5, 0), (5, 1), (5, 3), (2, 3), (1, 3)] {
        let origins = Origins((0..count).map(|_| Origin::scripted(hang_up)).collect());
        let running = start(&origins.config(&format!("retries = {retries}")));
        let warmed = i64::try_from(count).expect("few");
        for (target, left) in [("/fresh", 999), ("/kept", 998 - warmed)] {
            let answer = Client::connect(running.public).get(target, "");
            assert_eq!((answer.status, remaining(&answer, "p")), (502, left));
            let seen = origins.seen(target);
            let endpoints: HashSet<_> = seen.iter().map(|(origin, _)| origin).collect();
            let found = (seen.len(), endpoints.len());
            let expected = (retries + 1, count.min(retries + 1));
            assert_eq!(found, expected, "{target}: {count} {retries}");
            // The second time, over kept connections.
            warm(&running, count);
        }
    }
}

/// Returns how many retries there are for 200 failing requests over ten seconds, and how many are denied.
fn retried_of_200(budget: &str) -> (usize, usize) {
    let hang_up = |_| Origin::scripted(|_| Ok(After::Close));
    let origins = Origins((0..2).map(hang_up).collect());
    let lines = format!("retry_budget = {budget}");
    let running = start(&origins.config(&lines).admin("127.0.0.1:0"));
    for _ in 0..200 {
        running.clock.advance(Micros(50_000));
        assert_eq!(Client::connect(running.public).get("/", "").status, 502);
    }
    let denied = running.metric("tollgate_upstream_retries_denied_total");
    let denied = usize::try_from(denied).expect("few");
    (origins.seen("/").len() - 200, denied)
}

#[test]
fn retries_are_a_part_of_the_requests_of_the_last_seconds_and_a_few() {
    for (budget, least, most) in [("0", 3, 40), ("0.2", 3, 70), ("1", 31, 200)] {
        let (retried, denied) = retried_of_200(budget);
        assert!((least..=most).contains(&retried), "{budget}: {retried}");
        assert_eq!(retried + denied, 200, "{budget}");
    }
}

const QUOTA: &str = "quota = '1000 per day'\nalgorithm = 'fixed-window'";
const METHODS: [&str; 8] = [
    "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST", "PATCH", "FETCH",
];
/// What follows the head's fields: no body, an empty one, and one of four bytes in each framing.
const BODIES: [&str; 4] = ["\r\n", EMPTY, "Content-Length: 4\r\n\r\nbody", CHUNKED];
const EMPTY: &str = "Content-Length: 0\r\n\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
