//! Many conversations at once: each costs what its answer reports, or the most that is known if it reports nothing.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::thread;

use http::Method;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::stores::{on_each_store, redis};
use crate::support::client::first_answered;
use crate::support::http2::{self, Http2};
use crate::support::ratelimit::remaining;
use crate::support::{After, Client, Config, Exchange, Fleet, Gate, Origin, eventually, start};

/// More than a test spends, in one window that is longer than any test.
const QUOTA: i64 = 2_000_000_000;

const POLICY: &str = "algorithm = 'fixed-window'\npartition = []\nmax_cost = 5000\n\
     cost = [{ from = 'response-json:/usage/total_tokens | /usage/steps/*/tokens', take = 'last' }]\n\
     reserve = 'request-json:/max_tokens'\nreserve_default = 300\n\
     refund_on = ['5xx', 'response-json:/error']";

/// One request, and what becomes of it.
#[derive(Clone, Copy, Debug)]
struct Conversation {
    over_http2: bool,
    reserve: i64,
    /// Units that the answer reports, if it reports any.
    reported: i64,
    turn: Turn,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    Document,
    Stream,
    /// A document that reports its units in steps.
    Steps,
    /// A stream whose last event reports less than one before it.
    Falling,
    /// A document that ends with its connection.
    Closed,
    /// An error in place of an answer.
    Error,
    /// A stream that reports its units, and then an error.
    ErrorTold,
    /// A stream that reports an error after an event without units.
    ErrorUntold,
    /// A stream that reports nothing.
    Silent,
    Compressed,
    NoContent,
    Failed,
    /// The origin breaks off after it has reported.
    Cut,
    /// The client leaves after the answer has reported.
    Left,
    /// The client leaves before its answer begins.
    LeftUnanswered,
    /// The client leaves before its request is whole.
    LeftAsking,
}

impl Conversation {
    /// Returns the units that the conversation must cost.
    fn cost(self) -> i64 {
        match self.turn {
            Turn::Document
            | Turn::Stream
            | Turn::Steps
            | Turn::Falling
            | Turn::Closed
            | Turn::ErrorTold => self.reported,
            Turn::Silent
            | Turn::Compressed
            | Turn::NoContent
            | Turn::LeftUnanswered
            | Turn::ErrorUntold => self.reserve,
            Turn::Failed | Turn::LeftAsking | Turn::Error => 0,
            Turn::Cut | Turn::Left => self.reported.max(self.reserve),
        }
    }

    /// Returns the request's body, which tells the origin what to do.
    fn asks(self) -> String {
        let turn = format!("{:?}", self.turn);
        json!({ "turn": turn, "reported": self.reported, "max_tokens": self.reserve }).to_string()
    }

    fn take_place(self, gateway: SocketAddr, origin: &Origin) {
        if self.over_http2 {
            self.take_place_over_http2(gateway, origin);
        } else {
            self.take_place_over_http1(gateway, origin);
        }
    }

    fn take_place_over_http1(self, gateway: SocketAddr, origin: &Origin) {
        let mut client = Client::connect(gateway);
        let body = self.asks();
        let length = body.len();
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n");
        match self.turn {
            Turn::LeftAsking => client.send(format!("{head}{}", &body[..5])),
            Turn::LeftUnanswered => {
                client.send(format!("{head}{body}"));
                self.wait_until_asked(origin);
            }
            Turn::Left => {
                client.send(format!("{head}{body}"));
                client.head().expect("the answer has begun");
                client.until("\n\n");
            }
            Turn::Cut => {
                client.send(format!("{head}{body}"));
                assert!(client.try_answer().is_err());
            }
            _ => {
                client.ask(format!("{head}{body}"));
            }
        }
    }

    fn take_place_over_http2(self, gateway: SocketAddr, origin: &Origin) {
        let mut client = Http2::connect(gateway, 65_535);
        let mut stream = client.begin(http2::request(Method::POST, "/"), false);
        let body = self.asks();
        if self.turn == Turn::LeftAsking {
            stream.send(&body.as_bytes()[..5]);
            return stream.cancel();
        }
        stream.send(body.as_bytes());
        stream.finish();
        match self.turn {
            Turn::LeftUnanswered => {
                self.wait_until_asked(origin);
                stream.cancel();
            }
            Turn::Left => {
                stream.head().expect("the answer has begun");
                stream.take(1).expect("an event");
                stream.cancel();
            }
            Turn::Cut => {
                stream.head().expect("the answer has begun");
                stream.rest().expect_err("it broke off");
            }
            _ => {
                stream.head().expect("an answer");
                stream.rest().expect("a whole answer");
            }
        }
    }

    /// Waits until the origin has the whole request; its `reported` differs from that of every other conversation.
    fn wait_until_asked(self, origin: &Origin) {
        let body = self.asks();
        eventually("the origin is asked", || {
            let requests = origin.requests();
            let is_asked = requests
                .iter()
                .any(|request| request.body == body.as_bytes());
            is_asked.then_some(())
        });
    }
}

/// An origin that does what the request's body says.
fn origin() -> Origin {
    Origin::scripted(|exchange| {
        exchange.read_body()?;
        let asked: Value = serde_json::from_slice(&exchange.body())?;
        let reported = json!({ "usage": { "total_tokens": asked["reported"] } }).to_string();
        let turn = asked["turn"].as_str().unwrap_or_default().to_owned();
        let event = format!("data: {reported}\n\n");
        match &*turn {
            "Document" => answer(exchange, "200 OK", "application/json", &reported)?,
            "Stream" => {
                let events = format!("data: {{\"usage\":null}}\n\n{event}data: [DONE]\n\n");
                answer(exchange, "200 OK", "text/event-stream", &events)?;
            }
            "Steps" => {
                let steps = steps(asked["reported"].as_i64().unwrap_or_default());
                answer(exchange, "200 OK", "application/json", &steps)?;
            }
            "Falling" => {
                let more = "data: {\"usage\":{\"total_tokens\":4999}}\n\n";
                let events = format!("{more}{event}data: {{\"usage\":null}}\n\n");
                answer(exchange, "200 OK", "text/event-stream", &events)?;
            }
            "Closed" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
                exchange.write(format!("{head}\r\n\r\n{reported}"))?;
                return Ok(After::Close);
            }
            "Error" => answer(exchange, "200 OK", "application/json", ERROR)?,
            "ErrorTold" => {
                let events = format!("{event}data: {ERROR}\n\n");
                answer(exchange, "200 OK", "text/event-stream", &events)?;
            }
            "ErrorUntold" => {
                let events = format!("data: {{}}\n\ndata: {ERROR}\n\n");
                answer(exchange, "200 OK", "text/event-stream", &events)?;
            }
            "Silent" => answer(exchange, "200 OK", "text/event-stream", "data: {}\n\n")?,
            "Compressed" => {
                let field = "application/json\r\nContent-Encoding: br";
                answer(exchange, "200 OK", field, &reported)?;
            }
            "NoContent" => exchange.write("HTTP/1.1 204 No Content\r\n\r\n")?,
            "Failed" => answer(exchange, "500 No", "application/json", &reported)?,
            "LeftUnanswered" => {
                exchange.until_closed();
                return Ok(After::Close);
            }
            "Left" | "Cut" => {
                let length = event.len();
                exchange.write(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                     Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{event}\r\n"
                ))?;
                if turn == "Left" {
                    exchange.until_closed();
                }
                return Ok(After::Close);
            }
            _ => unreachable!("{turn}"),
        }
        Ok(After::Keep)
    })
}

const ERROR: &str = r#"{"error":{"code":529}}"#;

/// A document that reports its units in three steps, and at its top only those of the last one.
fn steps(units: i64) -> String {
    let parts = [units / 3, units / 5, units - units / 3 - units / 5];
    let steps = parts.map(|part| json!({ "tokens": part }));
    json!({ "usage": { "total_tokens": parts[2], "steps": steps } }).to_string()
}

/// Writes an answer in chunks of a few bytes.
fn answer(
    exchange: &mut Exchange,
    status: &str,
    content_type: &str,
    body: &str,
) -> std::io::Result<()> {
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for chunk in body.as_bytes().chunks(7).map(String::from_utf8_lossy) {
        write!(bytes, "{:x}\r\n{chunk}\r\n", chunk.len()).expect("memory takes every byte");
    }
    exchange.write(bytes + "0\r\n\r\n")
}

/// Returns this many conversations, the same ones each time.
fn conversations(count: usize) -> Vec<Conversation> {
    let turn = prop::sample::select(vec![
        Turn::Document,
        Turn::Stream,
        Turn::Steps,
        Turn::Falling,
        Turn::Closed,
        Turn::Error,
        Turn::ErrorTold,
        Turn::ErrorUntold,
        Turn::Silent,
        Turn::Compressed,
        Turn::NoContent,
        Turn::Failed,
        Turn::Cut,
        Turn::Left,
        Turn::LeftUnanswered,
        Turn::LeftAsking,
    ]);
    let one = (any::<bool>(), 0..2000_i64, turn);
    let mut runner = TestRunner::deterministic();
    let conversations = (0..).take(count).map(|reported| {
        let (over_http2, reserve, turn) = one.new_tree(&mut runner).expect("a value").current();
        Conversation {
            over_http2,
            reserve,
            reported,
            turn,
        }
    });
    conversations.collect()
}

/// Returns what is left of the quota, as told to a request that reserves and costs nothing.
fn left(gateway: SocketAddr) -> i64 {
    let zero = r#"{"turn":"Document","reported":0,"max_tokens":0}"#;
    remaining(&Client::connect(gateway).post("/", "", zero), "p")
}

fn config(endpoint: &str, quota: i64) -> Config {
    let policy = format!("quota = '{quota} per 366 days'\n{POLICY}");
    Config::limited(endpoint, &policy)
}

/// Holds a thousand conversations through these gateways, eight at a time, and checks what they cost in all.
fn converse(gateways: &[SocketAddr], origin: &Origin) {
    let conversations = conversations(1000);
    thread::scope(|scope| {
        for part in 0..8 {
            let part = conversations.iter().enumerate().skip(part).step_by(8);
            scope.spawn(move || {
                for (at, conversation) in part {
                    conversation.take_place(gateways[at % gateways.len()], origin);
                }
            });
        }
    });
    let cost: i64 = conversations
        .iter()
        .map(|conversation| conversation.cost())
        .sum();
    eventually(&format!("all cost {cost}"), || {
        (QUOTA - left(gateways[0]) == cost).then_some(())
    });
}

#[test]
fn a_thousand_conversations_cost_what_they_told_to_the_unit() {
    let origin = origin();
    let running = start(&config(&origin.url(), QUOTA));
    converse(&[running.public], &origin);
}

#[test]
fn a_thousand_conversations_over_http2_to_the_upstream_cost_what_they_told_to_the_unit() {
    let origin = origin();
    // The upstream is a gateway that speaks HTTP/2 on its listener, and passes everything on.
    let upstream = start(&Config::to(origin.url()).route("/*", ""));
    let endpoint = format!("h2c://{}", upstream.public);
    let running = start(&config(&endpoint, QUOTA));
    converse(&[running.public], &origin);
}

#[test]
fn a_thousand_conversations_with_a_fleet_cost_what_they_told_to_the_unit() {
    let origin = origin();
    let fleet = Fleet::of(3, &config(&origin.url(), QUOTA).with(&redis()));
    converse(&fleet.addresses(), &origin);
}

/// An origin that answers when the gate opens: a request costs the `reported` of its body, or 1.
fn gated() -> (Gate, Origin) {
    let gate = Gate::default();
    let origin = Origin::scripted({
        let gate = gate.clone();
        move |exchange| {
            exchange.read_body()?;
            gate.wait();
            let asked: Value = serde_json::from_slice(&exchange.body())?;
            let units = asked["reported"].as_i64().unwrap_or(1);
            let reported = json!({ "usage": { "total_tokens": units } }).to_string();
            answer(exchange, "200 OK", "application/json", &reported)?;
            Ok(After::Keep)
        }
    });
    (gate, origin)
}

/// A quota with room for ten requests that reserve 1000 each, but not for eleven.
const TEN: i64 = 10_999;

/// Sends fifty requests at once, of which ten are admitted; these cost 1 each in the end.
fn ask_fifty_times(gateways: &[SocketAddr], gate: &Gate) {
    let addresses = gateways.iter().cycle().take(50);
    let mut clients: Vec<_> = addresses.map(|address| Client::connect(*address)).collect();
    let body = r#"{"max_tokens":1000}"#;
    let length = body.len();
    for client in &mut clients {
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
    }
    for _ in 0..40 {
        let first = first_answered(&mut clients);
        assert_eq!(clients.swap_remove(first).answer().status, 429);
    }
    gate.open();
    for mut client in clients {
        assert_eq!(client.answer().status, 200);
    }
    let all_but = |spent: i64| (left(gateways[0]) == TEN - spent).then_some(());
    eventually("ten have cost one each", || all_but(10));
}

#[test]
fn of_fifty_requests_at_once_a_budget_for_ten_admits_ten() {
    on_each_store(|start| {
        let (gate, origin) = gated();
        let running = start(config(&origin.url(), TEN));
        ask_fifty_times(&[running.public], &gate);
    });
    let (gate, origin) = gated();
    let fleet = Fleet::of(3, &config(&origin.url(), TEN).with(&redis()));
    ask_fifty_times(&fleet.addresses(), &gate);
}
