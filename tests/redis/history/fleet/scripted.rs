//! An origin that answers each request as the request itself says, and that tells which requests have arrived.

use std::collections::HashSet;
use std::io::Result;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use super::ledger::{Manner, RESERVE};
use crate::support::{After, Draws, Exchange, Gate, Origin};

/// The origin, with the requests that it has seen.
#[derive(Debug)]
pub struct Script {
    origin: Origin,
    /// Numbers of the requests that have arrived.
    seen: Arc<Mutex<HashSet<usize>>>,
    /// Gates at which answers wait; each opens once.
    gates: Arc<[Gate]>,
}

/// How the origin answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answering {
    /// Whether the status is one for which the charge is given back.
    pub is_refunded: bool,
    /// Cost that the answer reports.
    pub reported: Option<u64>,
    /// Gate at which the answer waits.
    pub gate: Option<usize>,
    pub ending: Ending,
}

/// How much of an answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Whole,
    /// The answer ends within its body, before that has reported anything.
    Cut,
    /// The answer never ends: a stream of events reports the cost, and then nothing more comes.
    Stream,
    /// The answer never begins.
    Mute,
}

const ENDINGS: [(&str, Ending); 4] = [
    ("whole", Ending::Whole),
    ("cut", Ending::Cut),
    ("stream", Ending::Stream),
    ("mute", Ending::Mute),
];
/// As many gates as one fleet needs.
const GATES: usize = 8;
/// Field that says how a request is answered: its number, status, cost, gate and ending.
const FIELD: &str = "x-script";

impl Script {
    pub fn start() -> Self {
        let seen = Arc::<Mutex<HashSet<usize>>>::default();
        let gates: Arc<[Gate]> = (0..GATES).map(|_| Gate::default()).collect();
        let origin = Origin::scripted({
            let (seen, gates) = (Arc::clone(&seen), Arc::clone(&gates));
            move |exchange| answer(exchange, &seen, &gates)
        });
        Self {
            origin,
            seen,
            gates,
        }
    }

    pub fn url(&self) -> String {
        self.origin.url()
    }

    /// Whether the request with that number has arrived.
    pub fn has(&self, number: usize) -> bool {
        let seen = self.seen.lock();
        seen.expect("no answer panics with it").contains(&number)
    }

    /// Opens a gate for the answers that wait there.
    pub fn open(&self, gate: usize) {
        self.gates[gate].open();
    }
}

impl Answering {
    /// Returns a whole answer that reports `cost`.
    pub fn reporting(cost: u64) -> Self {
        Self {
            is_refunded: false,
            reported: Some(cost),
            gate: None,
            ending: Ending::Whole,
        }
    }

    /// Draws an answer: one in four gives the charge back, and one in five reports no cost.
    pub fn draw(draws: &mut Draws, gate: Option<usize>) -> Self {
        let reported = 1 + draws.below(9);
        Self {
            is_refunded: draws.below(4) == 0,
            reported: (draws.below(5) > 0).then_some(reported),
            gate,
            ending: ENDINGS[usize::from(draws.below(8) == 0)].1,
        }
    }

    /// Returns the same answer without a refund, and with this ending.
    pub fn with(self, ending: Ending) -> Self {
        Self {
            is_refunded: false,
            ending,
            ..self
        }
    }

    /// Returns how many units stay charged after this answer.
    pub fn stays(self, manner: Manner) -> u64 {
        let reported = self.reported.unwrap_or(RESERVE);
        match (manner, self.ending) {
            _ if self.is_refunded => 0,
            (_, Ending::Mute) | (Manner::Body, Ending::Cut) => RESERVE,
            // The stream might have reported more.
            (Manner::Body, Ending::Stream) => reported.max(RESERVE),
            _ => reported,
        }
    }

    /// Returns the field line by which the origin learns of this answer.
    pub fn field(self, number: usize) -> String {
        let status = if self.is_refunded { 503 } else { 200 };
        let (reported, gate) = (or_none(self.reported), or_none(self.gate));
        let ending = ENDINGS.iter().find(|(_, ending)| *ending == self.ending);
        let ending = ending.expect("one of them").0;
        format!("{FIELD}: {number} {status} {reported} {gate} {ending}\r\n")
    }
}

fn or_none(number: Option<impl ToString>) -> String {
    number.map_or("-".to_owned(), |number| number.to_string())
}

fn answer(exchange: &mut Exchange, seen: &Mutex<HashSet<usize>>, gates: &[Gate]) -> Result<After> {
    let field = exchange.head.field(FIELD).expect("a script").to_owned();
    let words: Vec<&str> = field.split(' ').collect();
    let [number, status, reported, gate, ending] = words[..] else {
        panic!("not a script: {field}");
    };
    let ending = ENDINGS.iter().find(|(word, _)| *word == ending);
    let ending = ending.expect("an ending").1;
    exchange.read_body()?;
    let number = number.parse().expect("a number");
    seen.lock().expect("nobody panics with it").insert(number);
    if let Some(gate) = parsed::<usize>(gate) {
        gates[gate].wait();
    }
    if ending == Ending::Mute {
        exchange.until_closed();
        return Ok(After::Close);
    }
    let reported = parsed::<u64>(reported);
    let body = reported.map_or("{}".to_owned(), |reported| format!("{{\"n\":{reported}}}"));
    let cost = reported.map_or(String::new(), |reported| format!("X-Cost: {reported}\r\n"));
    let head = |kind, length: &str| {
        format!(
            "HTTP/1.1 {status} As Reported\r\nX-Origin: 1\r\nContent-Type: {kind}\r\n{cost}{length}\r\n"
        )
    };
    match ending {
        Ending::Whole => {
            let length = format!("Content-Length: {}\r\n", body.len());
            exchange.write(format!("{}{body}", head("application/json", &length)))?;
            Ok(After::Keep)
        }
        Ending::Cut => {
            let head = head("application/json", "Content-Length: 100\r\n");
            exchange.write(format!("{head}{{\"n\": "))?;
            Ok(After::Close)
        }
        Ending::Stream | Ending::Mute => {
            exchange.write(format!("{}data: {body}\n\n", head("text/event-stream", "")))?;
            exchange.until_closed();
            Ok(After::Close)
        }
    }
}

fn parsed<T: FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}
