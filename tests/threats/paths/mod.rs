//! No spelling of a path or a host slips past a route's policies.
//!
//! The rule under test is `/login` with three a minute for all, beside a route for everything else
//! that has no policy. Whatever is not limited or refused must be another resource, as seen by every
//! origin of the mini garden.

mod agreement;
mod as_sent;
mod fields;
mod hosts;
mod kept;
mod spellings;

use crate::support::{Answer, Client, Config, Garden, Origin, Running, secs, start};

/// What may become of another spelling of what a rule limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is what the rule limits, and forwarded as this target.
    Limited(&'static str),
    /// It is refused with 400.
    Bad,
    /// It is another resource, forwarded as this target.
    Other(&'static str),
}

/// What became of many requests that were spelled alike.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    admitted: usize,
    limited: usize,
    bad: usize,
    /// Statuses other than 200, 429 and 400.
    strange: Vec<u16>,
}

/// How often each spelling is sent.
const TIMES: usize = 50;
/// What the rule admits of them.
const QUOTA: usize = 3;

/// Sends a request many times, on one connection for as long as it lasts.
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
    /// What many requests of this fate come to.
    fn outcome(self) -> Outcome {
        let mut outcome = Outcome::default();
        match self {
            Self::Limited(_) => (outcome.admitted, outcome.limited) = (QUOTA, TIMES - QUOTA),
            Self::Bad => outcome.bad = TIMES,
            Self::Other(_) => outcome.admitted = TIMES,
        }
        outcome
    }

    /// The target that an origin gets to see, if it gets to see one.
    fn forwarded(self) -> Option<&'static str> {
        match self {
            Self::Limited(target) | Self::Other(target) => Some(target),
            Self::Bad => None,
        }
    }
}

/// A file without routes, for a gateway that does not log thousands of requests.
fn quiet(upstream: &str) -> Config {
    Config::to(upstream).with("[log]\naccess = 'off'")
}

/// The rule under test, and a route without a policy beside it.
fn limited(upstream: &str, lines: &str) -> Config {
    quiet(upstream)
        .policy("p", "quota = '3 per minute'\npartition = []")
        .route("/login", &format!("policies = ['p']\n{lines}"))
        .route("/*", "")
}

/// Adds every origin of the garden under the host of its name, with these routes.
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

/// Sends each target on a connection of its own, and compares its status and what is forwarded.
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

/// Asks for a target at the host of that name.
fn ask(client: &mut Client, name: &str, target: &str) -> Answer {
    client.ask(format!(
        "GET {target} HTTP/1.1\r\nHost: {name}.test\r\n\r\n"
    ))
}

/// Fails the test with every line, not the first alone.
#[track_caller]
fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
