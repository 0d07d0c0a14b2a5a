//! Clients of a fleet: they send requests, some of which the origin holds back, and record what they were told.

use super::ledger::{Asked, Verdict};
use super::numbers::TEAM;
use super::rig::Rig;
use super::scripted::{Answering, Ending};
use crate::support::fleet::CLIENT;
use crate::support::{Client, eventually};

/// A request: to which gateway, on which route, from which client, and how the origin is to answer it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub gateway: usize,
    pub route: usize,
    pub client: usize,
    pub answering: Answering,
}

/// A request whose answer the origin holds back.
#[derive(Debug)]
pub struct Held {
    client: Client,
    /// Index of the request in the ledger.
    place: usize,
}

/// Number of requests that are left waiting for their turn.
const WAITING: u64 = 2;

impl Rig {
    /// Sends a request and reads its answer.
    #[track_caller]
    pub fn ask(&self, request: Request) -> Verdict {
        self.read(self.send(request))
    }

    /// Sends a request and waits until the origin has it; `None` if it is answered without the origin.
    #[track_caller]
    pub fn hold(&self, request: Request) -> Option<Held> {
        let mut held = self.send(request);
        let is_answered = eventually("the origin has it, or it is answered", || {
            let is_answered = !held.client.is_silent();
            (is_answered || self.script.has(held.place)).then_some(is_answered)
        });
        if is_answered {
            self.read(held);
            return None;
        }
        self.went_on(&held);
        self.ledger().asked[held.place].is_held = true;
        Some(held)
    }

    /// Sends a request that is never answered to the end, and waits until its gateway knows all it can learn of its
    /// cost.
    #[track_caller]
    pub fn leave_open(&self, request: Request) -> Held {
        let mut open = self.send(request);
        eventually("the origin has it", || {
            self.script.has(open.place).then_some(())
        });
        if request.answering.ending == Ending::Stream {
            open.client.until("data: ");
        }
        self.went_on(&open);
        open
    }

    /// Sends requests that their gateway holds until their turn, and waits until each is held or refused. None of the
    /// held ones is answered before the gateway ends, so they cost only the paced policy.
    #[track_caller]
    pub fn leave_waiting(&self, gateway: usize, client: usize) -> Vec<Held> {
        let request = Request {
            gateway,
            route: self.paced_route(),
            client,
            answering: Answering::reporting(0),
        };
        let mut waiting: Vec<_> = (0..WAITING).map(|_| self.send(request)).collect();
        eventually("each waits for its turn, or is refused", || {
            let clients = waiting.iter_mut();
            let refused = clients.filter_map(|one| (!one.client.is_silent()).then_some(()));
            let held = self.number(gateway, "tollgate_requests_delayed");
            (refused.count() as u64 + held == WAITING).then_some(())
        });
        let refused: Vec<_> = (waiting.extract_if(.., |one| !one.client.is_silent())).collect();
        for one in refused {
            self.read(one);
        }
        for one in &waiting {
            self.went_on(one);
        }
        waiting
    }

    /// Reads the answer to a request, and records the verdict.
    #[track_caller]
    pub fn read(&self, mut held: Held) -> Verdict {
        let mut answer = held.client.head().expect("an answer");
        // How the answer ends is up to the origin.
        let _ = held.client.finish(&mut answer);
        let is_of_origin = answer.field("x-origin").is_some();
        let verdict = match answer.status {
            200 | 503 if is_of_origin => Verdict::Admitted,
            429 => Verdict::Refused,
            503 => Verdict::Undecided,
            _ => panic!("{answer:?}"),
        };
        let received = self.watch.now();
        let mut ledger = self.ledger();
        let asked = &mut ledger.asked[held.place];
        if asked.is_held {
            assert_eq!(
                verdict,
                Verdict::Admitted,
                "it was at its origin: {answer:?}"
            );
        } else {
            (asked.received, asked.verdict) = (received, verdict);
        }
        asked.is_held = false;
        verdict
    }

    /// Sends a request, and records what it will cost if it goes on.
    #[track_caller]
    pub fn send(&self, request: Request) -> Held {
        let Request {
            gateway,
            route,
            client,
            answering,
        } = request;
        let mut ledger = self.ledger();
        let manner = ledger.policies[ledger.routes[route][0]].manner;
        let place = ledger.asked.len();
        ledger.asked.push(Asked {
            route,
            client,
            gateway,
            sent: self.watch.now(),
            received: i64::MAX,
            verdict: Verdict::Undecided,
            stays: answering.stays(manner),
            is_held: false,
            settled: None,
        });
        drop(ledger);
        let mut connection = Client::connect(self.addresses[gateway]);
        connection.send(format!(
            "GET /{route} HTTP/1.1\r\nHost: a.test\r\n{CLIENT}: {client}\r\n{TEAM}: all\r\n{}\r\n",
            answering.field(place)
        ));
        Held {
            client: connection,
            place,
        }
    }

    /// Records that a request was admitted, though it has no answer yet.
    fn went_on(&self, held: &Held) {
        let mut ledger = self.ledger();
        let asked = &mut ledger.asked[held.place];
        (asked.received, asked.verdict) = (self.watch.now(), Verdict::Admitted);
    }

    /// Records that the latest request was decided without Redis, which was not even asked.
    pub fn was_elsewhere(&self) {
        let mut ledger = self.ledger();
        let latest = ledger.asked.last_mut().expect("a request");
        latest.verdict = Verdict::Elsewhere;
    }
}
