//! Clients that send requests to gateways, and record when they sent them, when they were answered, and how.

use std::net::SocketAddr;
use std::ops::Range;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tollgate::limit::Quota;

use super::law::{Answer, History, Request};
use crate::support::fleet::CLIENT;
use crate::support::{Client, Draws};

/// Number of clients that send requests at the same time.
const THREADS: u64 = 12;
/// Most bursts in addition to those that are asked for.
const BURSTS_MORE: u32 = 40;
/// Number of names that the clients use.
const KEYS: u32 = 3;
/// Largest error of a disciplined clock, in addition to what is measured.
const TOLERANCE: Duration = Duration::from_millis(1);

/// A clock that never steps, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    epoch: i64,
    began: Instant,
}

/// Sends requests for every quota to `gateways`, in bursts with enough quiet between them for the quotas with the
/// shortest window to be whole again, and returns a history of each quota.
///
/// On a busy machine, that many bursts may have too few requests for a verdict. Quotas whose
/// history lacks something then get further bursts, one quota in each.
pub fn record(
    gateways: &[SocketAddr],
    quotas: &[Quota],
    bursts: u32,
    lacks: impl Fn(&History, &Quota) -> bool,
) -> Vec<History> {
    let watch = Watch::start();
    let window = quotas.iter().map(|quota| quota.window).min();
    let span = Duration::from(window.expect("a quota")) * 3 / 2;
    let askers = (0..THREADS).map(|seed| Asker::new(gateways, watch, seed));
    let mut askers: Vec<_> = askers.collect();
    let mut histories: Vec<_> = quotas.iter().map(|_| History::default()).collect();
    for burst in 0..bursts + BURSTS_MORE {
        let paths = if burst < bursts {
            0..quotas.len()
        } else {
            let mut all = histories.iter().zip(quotas);
            let Some(path) = all.position(|(history, quota)| lacks(history, quota)) else {
                break;
            };
            path..path + 1
        };
        let end = watch.elapsed() + span;
        let asked = thread::scope(|scope| {
            let start = |asker| scope.spawn(|| burst_of(asker, paths.clone(), end));
            let running: Vec<_> = askers.iter_mut().map(start).collect();
            let ends = running.into_iter().map(ScopedJoinHandle::join);
            let all = ends.flat_map(|end| end.expect("clients do not panic"));
            all.collect::<Vec<_>>()
        });
        for (path, request) in asked {
            histories[path].requests.push(request);
        }
        for history in &mut histories {
            history.tolerance = micros(TOLERANCE) + 2 * watch.drift();
        }
        thread::sleep(span);
    }
    histories
}

/// Whether a history lacks either an admitted or a refused request.
pub fn lacks_answers(history: &History, _: &Quota) -> bool {
    history.counts()[..2].contains(&0)
}

/// Sends requests for random ones of these paths until the end.
fn burst_of(asker: &mut Asker<'_>, paths: Range<usize>, end: Duration) -> Vec<(usize, Request)> {
    let mut requests = Vec::new();
    while asker.watch.elapsed() < end {
        let path = paths.start + asker.draws.below(paths.len());
        requests.push((path, asker.ask(path)));
        asker.pause();
    }
    requests
}

/// One client, with a connection to each gateway.
struct Asker<'a> {
    gateways: &'a [SocketAddr],
    connections: Vec<Option<Client>>,
    watch: Watch,
    draws: Draws,
}

impl<'a> Asker<'a> {
    fn new(gateways: &'a [SocketAddr], watch: Watch, seed: u64) -> Self {
        Self {
            gateways,
            connections: gateways.iter().map(|_| None).collect(),
            watch,
            draws: Draws(seed),
        }
    }

    /// Sends a request to a random gateway, with a random name.
    fn ask(&mut self, path: usize) -> Request {
        let gateway = self.draws.below(self.gateways.len());
        let key = self.draws.below(KEYS);
        let bytes = format!("GET /{path} HTTP/1.1\r\nHost: a.test\r\n{CLIENT}: key-{key}\r\n\r\n");
        let sent = self.watch.now();
        let status = self.exchange(gateway, &bytes);
        Request {
            key,
            cost: 1,
            sent,
            received: self.watch.now(),
            answer: match status {
                Some(200) => Answer::Admitted,
                Some(429) => Answer::Refused,
                _ => Answer::Unknown,
            },
        }
    }

    /// Sends a request and returns the status; `None` if the connection fails.
    fn exchange(&mut self, gateway: usize, bytes: &str) -> Option<u16> {
        let mut client = match self.connections[gateway].take() {
            Some(client) => client,
            None => Client::try_connect(self.gateways[gateway]).ok()?,
        };
        client.wire.write(bytes.as_bytes()).ok()?;
        let answer = client.try_answer().ok()?;
        if !answer.says_close() {
            self.connections[gateway] = Some(client);
        }
        Some(answer.status)
    }

    /// Pauses now and then, so that requests come at all distances.
    fn pause(&mut self) {
        if self.draws.below(4) == 0 {
            thread::sleep(Duration::from_micros(self.draws.below(20_000)));
        }
    }
}

impl Watch {
    pub fn start() -> Self {
        Self {
            epoch: epoch_us(),
            began: Instant::now(),
        }
    }

    pub fn now(&self) -> i64 {
        self.epoch + micros(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns how far the machine's clock, which Redis uses, has moved away from this one, in microseconds.
    fn drift(&self) -> i64 {
        (epoch_us() - self.now()).abs()
    }
}

fn epoch_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    micros(since.expect("a time after 1970"))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("a time of this age")
}
