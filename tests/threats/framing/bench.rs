//! A gateway in front of a recording origin, with its log and metrics, and the checks for the two
//! allowed outcomes of a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::{Row, SMUGGLED, assert_none, canonical, shown};
use crate::support::ratelimit::remaining;
use crate::support::{Answer, Client, Config, Metered, Origin, Recorded, Running, get, start};

/// A gateway whose only route has a policy that all clients share, with its origin and its log.
pub struct Bench {
    pub origin: Origin,
    pub running: Running,
    log: PathBuf,
    _directory: TempDir,
}

/// Values of all series of the metrics, by name and labels.
type Series = BTreeMap<String, i64>;

impl Bench {
    /// Starts a gateway in front of an origin that reads bodies strictly and answers 200.
    pub fn new() -> Self {
        Self::before(Origin::plain(), |config| config)
    }

    /// Starts a gateway in front of `origin`, with a file changed by `change`.
    pub fn before(origin: Origin, change: impl FnOnce(Config) -> Config) -> Self {
        let directory = tempfile::tempdir().expect("a directory for the log");
        let log = directory.path().join("access.log");
        let policy = format!("quota = '{QUOTA} per hour'\npartition = []");
        // One worker, so that the log's lines are in the order of the requests.
        let config = Config::limited(origin.url(), &policy)
            .one_worker()
            .admin("127.0.0.1:0")
            .with(&format!(
                "[log]\nfile = '{}'\nformat = 'json'",
                log.display()
            ));
        let running = start(&change(config));
        Self {
            origin,
            running,
            log,
            _directory: directory,
        }
    }

    /// Connects a client.
    pub fn client(&self) -> Client {
        Client::connect(self.running.public)
    }

    /// Sends `message`, followed by [`SMUGGLED`], and expects that it is refused.
    pub fn reject(&self, message: &[u8], status: u16, reason: &str) -> Result<(), String> {
        let (before, connections) = (self.series(), self.origin.connections());
        let mut client = self.client();
        client.send([message, SMUGGLED.as_bytes()].concat());
        let answer = client.try_answer().map_err(|error| error.to_string())?;
        expect("status", answer.status, status)?;
        expect("says close", answer.says_close(), true)?;
        // The clock stands still, so a close that waited for a deadline would never come.
        let rest = client.wire.read_to_fin();
        let rest = rest.map_err(|error| format!("no FIN behind the answer: {error}"))?;
        expect("bytes behind the answer", &*shown(&rest), "")?;
        // The gateway would read on for a while so that the answer arrives; this ends the wait.
        drop(client);
        let mut moved = Series::from([
            (
                format!("tollgate_malformed_total{{reason=\"{reason}\"}}"),
                1,
            ),
            (
                format!("tollgate_errors_total{{reason=\"{reason}\",fault=\"client\"}}"),
                1,
            ),
            (
                format!("tollgate_refusals_total{{status=\"{status}\",reason=\"{reason}\"}}"),
                1,
            ),
            (
                "tollgate_connections_accepted_total{listener=\"public\"}".into(),
                1,
            ),
        ]);
        if !OF_HYPER.contains(&reason) {
            let class = status / 100;
            let requests = format!("tollgate_requests_total{{route=\"none\",class=\"{class}xx\"}}");
            moved.insert(requests, 1);
        }
        settled(|| expect("moved", moves(&before, &self.series()), moved.clone()))?;
        expect(
            "connections to the origin",
            self.origin.connections(),
            connections,
        )
    }

    /// Sends `message`, followed by `behind`, and expects one request, after which the connection closes.
    pub fn one_and_close(&self, message: &[u8], behind: &[u8]) -> Result<Recorded, String> {
        let (mut client, seen) = self.one(message, behind)?;
        let rest = client.wire.read_to_fin();
        let rest = rest.map_err(|error| format!("no FIN behind the answer: {error}"))?;
        expect("bytes behind the answer", &*shown(&rest), "")?;
        expect("requests at the origin", self.origin.requests().len(), 1)?;
        Ok(seen)
    }

    /// Sends `message`, followed by `behind`, and reads one answer; returns the client's
    /// connection, and the first request that the origin saw.
    pub fn one(&self, message: &[u8], behind: &[u8]) -> Result<(Client, Recorded), String> {
        let mut client = self.client();
        client.send([message, behind].concat());
        let answer = client.try_answer().map_err(|error| error.to_string())?;
        expect("status", answer.status, 200)?;
        let requests = self.origin.requests();
        let first = requests.into_iter().next();
        let seen = first.ok_or("no request at the origin")?;
        expect("complete at the origin", seen.is_complete, true)?;
        canonical::check(&seen)?;
        Ok((client, seen))
    }

    /// Sends a request that no message of the tests resembles, and returns the answer.
    pub fn probe(&self) -> Answer {
        get(self.running.public, PROBE, "")
    }

    /// Returns the lines of the access log so far.
    pub fn log(&self) -> Vec<Value> {
        // This request has the last line, so all others are written once that is there.
        get(self.running.public, LAST, "");
        let lines = settled(|| {
            let text = fs::read_to_string(&self.log).map_err(|error| error.to_string())?;
            let lines = text.lines().map(serde_json::from_str);
            let lines: Result<Vec<Value>, _> = lines.collect();
            let mut lines = lines.map_err(|error| error.to_string())?;
            lines.retain(|line| line["target"] == "access");
            match lines.pop() {
                Some(last) if last["path"] == LAST => Ok(lines),
                _ => Err("the last line is not there".to_owned()),
            }
        });
        lines.expect("the log is written")
    }

    /// Returns the metrics, except those that measure time or the process.
    pub fn series(&self) -> Series {
        const MEASURED: [&str; 3] = ["#", "process_", "tollgate_request_duration_"];
        let page = self.running.metrics();
        let is_counted = |line: &&str| !MEASURED.iter().any(|start| line.starts_with(start));
        let lines = page.lines().filter(is_counted);
        let series = lines.filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        series.collect()
    }
}

/// Expects that every message is refused: each one increases its own counters and no others, leaves one line in the
/// log, reaches no origin and spends nothing.
#[track_caller]
pub fn rejected(rows: &[Row]) {
    let bench = Bench::new();
    let mut failures = Vec::new();
    for (message, status, reason) in rows {
        if let Err(failure) = bench.reject(message, *status, reason) {
            failures.push(format!("{}: {failure}", shown(message)));
        }
    }
    assert_none(&failures);
    let lines = bench.log();
    let lines: Vec<_> = lines.iter().map(told).collect();
    let expected = rows.iter().map(|row| format!("{} {}", row.1, row.2));
    let expected: Vec<_> = expected.collect();
    assert_eq!(lines, expected, "one line of the log for each message");
    assert_eq!(bench.origin.targets(), [LAST]);
    let left = remaining(&bench.probe(), "p");
    assert_eq!(left, QUOTA - 2, "only what was well-formed is spent");
}

/// Returns which series changed from `before` to `after`, and by how much.
pub fn moves(before: &Series, after: &Series) -> Series {
    let moved = after.iter().filter_map(|(name, value)| {
        let by = value - before.get(name).unwrap_or(&0);
        (by != 0).then(|| (name.clone(), by))
    });
    moved.collect()
}

/// Repeats `attempt` until it succeeds; if it never does, returns its last failure.
pub fn settled<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for _ in 0..TRIES {
        if let Ok(done) = attempt() {
            return Ok(done);
        }
        thread::sleep(Duration::from_millis(5));
    }
    attempt()
}

/// Compares two values, and returns an error if they differ.
#[expect(
    clippy::needless_pass_by_value,
    reason = "most of what is compared is made for it"
)]
pub fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} instead of {expected:?}"))
    }
}

fn told(line: &Value) -> String {
    let reason = line["reason"].as_str().unwrap_or("no reason");
    format!("{} {reason}", line["status"])
}

/// Quota of the policy `p`.
pub const QUOTA: i64 = 100_000;

const PROBE: &str = "/probe";
const LAST: &str = "/last";
const TRIES: usize = 2_000;

/// Reasons of heads that never become a request, because hyper refuses them.
const OF_HYPER: &[&str] = &["syntax", "too_large", "incomplete", "timeout"];
