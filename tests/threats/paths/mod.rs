//! No spelling of a path or a host slips past a route's policies.
//!
//! The rule under test limits `/login` to three requests a minute for all clients together, next to a route for
//! everything else, which has no policy. Whatever is neither limited nor refused must be another resource for every
//! origin of the mini garden.

mod agreement;
mod as_sent;
mod fields;
mod hosts;
mod kept;
mod spellings;

use crate::support::{Answer, Client, Config, Garden, Origin, Running, secs, start};

/// What the gateway does with a spelling that resembles a limited path or host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is the limited resource, forwarded as this target.
    Limited(&'static str),
    /// It is refused with 400.
    Bad,
    /// It is another resource, forwarded as this target.
    Other(&'static str),
}

/// How many requests with the same spelling were answered in each way.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    admitted: usize,
    limited: usize,
    bad: usize,
    /// Statuses other than 200, 429 and 400.
    strange: Vec<u16>,
}

/// How many times each spelling is sent.
const TIMES: usize = 50;
/// How many requests the rule admits.
const QUOTA: usize = 3;

/// Sends a request [`TIMES`] times, on one connection as long as that stays open.
fn send_many(running: &Running, request: &[u8]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut client = Client::connect(running.public);
    for _ in 0..TIMES {
        let answer = if request.starts_with(b"HEAD ") {
            client.send(request);
            client.answer_to_head()
        } else {
            client.ask(request)
        };
        match answer.status {
            200 => outcome.admitted += 1,
            429 => outcome.limited += 1,
            400 => outcome.bad += 1,
            other => outcome.strange.push(other),
        }
        if answer.says_close() {
            client.assert_closed();
            client = Client::connect(running.public);
        }
    }
    outcome
}

impl Fate {
    /// Returns the outcome that many requests of this fate must have.
    fn outcome(self) -> Outcome {
        let mut outcome = Outcome::default();
        match self {
            Self::Limited(_) => (outcome.admitted, outcome.limited) = (QUOTA, TIMES - QUOTA),
            Self::Bad => outcome.bad = TIMES,
            Self::Other(_) => outcome.admitted = TIMES,
        }
        outcome
    }

    /// Returns the target that an origin sees; `None` if the request is refused.
    fn forwarded(self) -> Option<&'static str> {
        match self {
            Self::Limited(target) | Self::Other(target) => Some(target),
            Self::Bad => None,
        }
    }
}

/// A file without routes, and without an access log, because tests send thousands of requests.
fn quiet(upstream: &str) -> Config {
    Config::to(upstream).with("[log]\naccess = 'off'")
}

/// A file with the rule under test, and a route without a policy.
fn limited(upstream: &str, lines: &str) -> Config {
    quiet(upstream)
        .policy("p", "quota = '3 per minute'\npartition = []")
        .route("/login", &format!("policies = ['p']\n{lines}"))
        .route("/*", "")
}

/// Adds a host for each origin of the garden, with these routes to that origin.
fn planted(config: Config, garden: &Garden, routes: &[(&str, &str)]) -> Config {
    let mut config = config.with(&garden.upstreams());
    for (name, _) in &garden.origins {
        for (path, lines) in routes {
            config = config.with(&format!(
                "[[routes]]\nhost = '{name}.test'\nupstream = '{name}'\npath = '{path}'\n{lines}"
            ));
        }
    }
    config
}

/// Sends each target, in one piece and byte by byte, and compares the status and the forwarded target.
#[track_caller]
fn check<T: AsRef<[u8]>>(config: &Config, origin: &Origin, rows: &[(T, Result<&str, u16>)]) {
    let running = start(config);
    let mut failures = Vec::new();
    for (target, expected) in rows {
        let target = target.as_ref();
        for pieces in [usize::MAX, 1] {
            let before = origin.requests().len();
            let head = [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
            let mut client = Client::connect(running.public);
            for piece in head.chunks(pieces) {
                client.send(piece);
            }
            let answer = client.answer();
            if answer.status == 400 {
                client.assert_closed();
            }
            let seen = origin.targets().split_off(before);
            let found = match answer.status {
                200 => seen.first().map(String::as_str).ok_or(200),
                other => Err(other),
            };
            if found != *expected || (answer.status != 200 && !seen.is_empty()) {
                failures.push(format!(
                    "{}: {} {seen:?}, expected {expected:?}",
                    target.escape_ascii(),
                    answer.status
                ));
            }
        }
        running.clock.advance(secs(120));
    }
    assert_none(&failures);
}

/// Sends a request for `target` to the origin `name` of the garden.
fn ask(client: &mut Client, name: &str, target: &str) -> Answer {
    client.ask(format!(
        "GET {target} HTTP/1.1\r\nHost: {name}.test\r\n\r\n"
    ))
}

/// Fails the test with all failures, not only the first one.
#[track_caller]
fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
