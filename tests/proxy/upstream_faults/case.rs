//! An origin that fails in one way, and the check of what the client and the log see of it.

use std::any::Any;
use std::fs;
use std::io::Result;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use crate::support::wire::is_timeout;
use crate::support::{
    After, Client, Config, Exchange, Gate, Metered, Origin, PATIENCE, Stepped, eventually, secs,
};

/// An origin that fails in one way.
pub struct Fault {
    name: &'static str,
    url: String,
    /// Keeps the origin running.
    _origin: Box<dyn Any>,
    /// Additional lines of its upstream.
    upstream: String,
    time: Time,
    /// Whether the origin fails only once and answers the next request well.
    is_once: bool,
    /// Gate that is opened once the client has the beginning of the body; `None` if the origin does not wait.
    begun: Option<Gate>,
    /// What the client sees; then the reason, fault and cause in the access log, and in brackets the cause in the
    /// metrics.
    told: &'static str,
}

/// How time passes while the request is under way.
enum Time {
    /// Time stands still.
    Stands,
    /// Time passes, a second at a time.
    Passes,
    /// Time passes, and the origin sends a piece each second.
    Paces(Pace),
}

/// Lets an origin send its next piece.
struct Pace {
    next: Sender<()>,
    sent: Receiver<()>,
}

impl Pace {
    fn next(&self) {
        // The origin may have nothing more to send, or no connection to send it on.
        if self.next.send(()).is_ok() {
            let _ = self.sent.recv_timeout(PATIENCE);
        }
    }
}

impl Fault {
    pub fn new(name: &'static str, url: impl Into<String>, origin: impl Any) -> Self {
        Self {
            name,
            url: url.into(),
            _origin: Box::new(origin),
            upstream: String::new(),
            time: Time::Stands,
            is_once: false,
            begun: None,
            told: "",
        }
    }

    /// An origin whose first answer is given by `script`, and whose others are good.
    pub fn once(
        name: &'static str,
        script: impl Fn(&mut Exchange) -> Result<After> + Send + Sync + 'static,
    ) -> Self {
        let origin = Origin::scripted(move |exchange| match exchange.index {
            0 => script(exchange),
            _ => echo(exchange),
        });
        let mut fault = Self::new(name, origin.url(), origin);
        fault.is_once = true;
        fault
    }

    /// An origin whose first answer is these bytes, after which it keeps the connection.
    pub fn saying(name: &'static str, answer: &str) -> Self {
        let answer = answer.to_owned();
        Self::once(name, move |exchange| {
            // The gateway may close before it has taken all of this.
            let _ = exchange.write(&answer);
            Ok(After::Keep)
        })
    }

    /// An origin whose first answer comes in pieces, one each second.
    pub fn pacing(name: &'static str, pieces: &[&'static str]) -> Self {
        let pieces = pieces.to_vec();
        let ((next, wanted), (sent, told_sent)) = (channel(), channel());
        let channels = Mutex::new((wanted, sent));
        let fault = Self::once(name, move |exchange| {
            let channels = channels.lock().expect("only the first request is paced");
            for piece in &pieces {
                if channels.0.recv().is_err() {
                    break;
                }
                let written = exchange.write(piece);
                // The test may be over.
                let _ = channels.1.send(());
                written?;
            }
            Ok(After::Keep)
        });
        let pace = Pace {
            next,
            sent: told_sent,
        };
        Self {
            time: Time::Paces(pace),
            ..fault
        }
    }

    /// An origin that sends `beginning`, and calls `rest` once the client has it.
    pub fn breaking(
        name: &'static str,
        beginning: &'static str,
        rest: impl Fn(&mut Exchange) -> After + Send + Sync + 'static,
    ) -> Self {
        let gate = Gate::default();
        let begun = gate.clone();
        let fault = Self::once(name, move |exchange| {
            exchange.write(beginning)?;
            gate.wait();
            Ok(rest(exchange))
        });
        Self {
            begun: Some(begun),
            ..fault
        }
    }

    /// Sets what the client, log and metrics must show.
    pub fn told(self, told: &'static str) -> Self {
        Self { told, ..self }
    }

    /// Has the failure come only after a timeout of two seconds.
    pub fn overdue(self) -> Self {
        let time = Time::Passes;
        Self { time, ..self }
    }

    /// Adds lines to the upstream.
    pub fn with(self, upstream: &str) -> Self {
        let upstream = upstream.to_owned();
        Self { upstream, ..self }
    }

    /// Runs the case; an error says what is wrong.
    fn check(&self) -> std::result::Result<(), String> {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let good = Origin::scripted(echo);
        let config = Config::to(&self.url)
            .admin("127.0.0.1:0")
            .upstream("retries = 0\nconnect_timeout = '2s'")
            .upstream("response_timeout = '2s'\nbody_timeout = '2s'")
            .upstream(&self.upstream)
            .route("/bad/*", "")
            .beside("good", &good.url(), "/good/*", "")
            .with(&format!(
                "[log]\nformat = 'json'\nfile = '{}'",
                log.display()
            ));
        let running = Stepped::start(&config);
        let mut client = Client::asking(running.public, "/bad/first", "");
        if let Some(begun) = &self.begun {
            let beginning = client.wire.read_until(b"\r\n\r\n");
            beginning
                .and_then(|_| client.wire.read_until(b"ab"))
                .expect("a beginning");
            begun.open();
        }
        self.wait(&running, &log);
        let (shown, is_cut) = match self.begun {
            Some(_) => (cut(&mut client), true),
            None => shown(&mut client),
        };
        let recorded = self.recorded(&log)? + &counted(&running);
        expect(&format!("{shown}{recorded}"), self.told)?;
        if is_cut {
            client = Client::connect(running.public);
        }
        expect(&client.get("/good/own", "").text(), "/good/own")?;
        if self.is_once {
            let next = Client::connect(running.public).get("/bad/next", "");
            expect(&next.text(), "/bad/next")?;
        }
        Ok(())
    }

    /// Lets time pass until the request is over, unless time stands still.
    fn wait(&self, running: &Stepped, log: &Path) {
        for _ in 0..SECONDS_MAX {
            match &self.time {
                Time::Stands => return,
                Time::Passes => {}
                Time::Paces(pace) => pace.next(),
            }
            running.advance(secs(1));
            if record(log).is_some() {
                return;
            }
        }
    }

    /// Returns what the access log says about the first request; empty if nothing went wrong.
    fn recorded(&self, log: &Path) -> std::result::Result<String, String> {
        let record = eventually("a line of the access log", || record(log));
        let seconds = record["duration_us"].as_u64().map(|us| us / 1_000_000);
        let is_in_time = match self.time {
            Time::Stands => seconds == Some(0),
            // Not before the timeout is over, nor long after it.
            Time::Passes | Time::Paces(_) => {
                seconds.is_some_and(|second| (2..=5).contains(&second))
            }
        };
        if !is_in_time {
            return Err(format!("it took {seconds:?} s"));
        }
        let endpoint = self.url.split_once("://").map(|(_, rest)| rest);
        if record["endpoint"].as_str() != endpoint || record["attempts"] != 1 {
            return Err(format!("not one attempt at {endpoint:?}: {record}"));
        }
        let Some(reason) = record["reason"].as_str() else {
            return Ok(String::new());
        };
        let text = |key: &str| record[key].as_str().unwrap_or("none").to_owned();
        Ok(format!(", {reason}, {}: {}", text("fault"), text("cause")))
    }
}

/// Answers with the request's target.
fn echo(exchange: &mut Exchange) -> Result<After> {
    let target = exchange.target();
    let length = target.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}");
    exchange.write(answer)?;
    Ok(After::Keep)
}

/// Reads an answer; returns a description of it, and whether it was cut.
fn shown(client: &mut Client) -> (String, bool) {
    let mut answer = match client.head() {
        Ok(answer) => answer,
        Err(error) => return (format!("nothing: {error}"), true),
    };
    let read = client.finish(&mut answer);
    let text = answer.text();
    match read {
        Ok(()) if answer.status == 200 => (format!("200 {text}"), false),
        Ok(()) => {
            assert_eq!(answer.problem()["status"], answer.status);
            (answer.status.to_string(), false)
        }
        Err(error) if is_timeout(&error) => (format!("{} that hangs", answer.status), true),
        Err(_) => {
            assert_eq!(client.rest(), b"");
            (format!("{} {text:?} cut", answer.status), true)
        }
    }
}

/// Returns how the metrics name the failure of the only failing endpoint, and of its handshake.
fn counted(running: &Stepped) -> String {
    let metrics = running.metrics();
    let counted = |name: &str, label: &str| {
        metrics.lines().find_map(|line| {
            let series = line
                .strip_prefix(name)?
                .strip_prefix("{upstream=\"api\",")?;
            let (_, cause) = series.strip_suffix("\"} 1")?.split_once(label)?;
            Some(cause.to_owned())
        })
    };
    let Some(cause) = counted("tollgate_endpoint_failures_total", "cause=\"") else {
        return String::new();
    };
    let is_opened = "tollgate_upstream_connections_opened_total{upstream=\"api\"} 1";
    let is_opened = metrics.lines().any(|line| line == is_opened);
    assert_eq!(
        is_opened,
        !cause.starts_with("connect") && cause != "tls",
        "{cause}"
    );
    match counted("tollgate_upstream_tls_failures_total", "reason=\"") {
        Some(reason) => format!(" [{cause} {reason}]"),
        None => format!(" [{cause}]"),
    }
}

/// Reads what follows the beginning of a body, and returns a description of it.
fn cut(client: &mut Client) -> String {
    match client.wire.read_to_end() {
        Ok(rest) if rest.is_empty() || rest == b"\r\n" => "cut".into(),
        Ok(rest) => format!("goes on {:?}", String::from_utf8_lossy(&rest)),
        Err(error) => format!("hangs: {error}"),
    }
}

/// Returns the access log's line of the first request, once there is one.
fn record(log: &Path) -> Option<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().find(|line| line.contains("\"/bad/first\""))?;
    serde_json::from_str(line).ok()
}

fn expect(found: &str, expected: &str) -> std::result::Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{found} instead of {expected}"))
}

/// Runs all cases, and fails the test with all that went wrong.
#[track_caller]
pub fn check(faults: &[Fault]) {
    let failed: Vec<_> = faults
        .iter()
        .filter_map(|fault| Some(format!("{}: {}", fault.name, fault.check().err()?)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Most seconds that a request of these tests may take.
const SECONDS_MAX: u64 = 10;
