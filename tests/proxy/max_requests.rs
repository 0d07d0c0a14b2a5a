//! `max_requests`: an upstream has at most this many requests at once, over all workers. The next one is refused at
//! once, and every way in which a request ends makes room.

use crate::support::ratelimit::remaining;
use crate::support::{
    After, Client, Config, Gate, Metered, Origin, Refusing, Running, eventually, get, start,
};

/// An origin whose answers wait for a gate, for gateways that allow it two requests at once.
struct Full {
    origin: Origin,
    gate: Gate,
}

impl Full {
    fn new() -> Self {
        let gate = Gate::default();
        let waiting = gate.clone();
        let origin = Origin::scripted(move |exchange| {
            exchange.read_body()?;
            match exchange.target() {
                "/begun" => {
                    exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")?;
                    waiting.wait();
                    exchange.write("cd")?;
                }
                "/broken" => {
                    exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")?;
                    waiting.wait();
                    return Ok(After::Close);
                }
                "/tunnel" => {
                    exchange.write(SWITCHED)?;
                    waiting.wait();
                    return Ok(After::Close);
                }
                "/held" => {
                    waiting.wait();
                    exchange.write(OK)?;
                }
                "/silent" => {
                    exchange.until_closed();
                    return Ok(After::Close);
                }
                _ => exchange.write(OK)?,
            }
            Ok(After::Keep)
        });
        Self { origin, gate }
    }

    fn config(&self, lines: &str) -> Config {
        Config::to(self.origin.url())
            .admin("127.0.0.1:0")
            .upstream(lines)
            .route("/*", "")
    }

    fn reload(&self, running: &mut Running, lines: &str) {
        let text = self.config(lines).text();
        running.gateway.reload(&text).expect("a good file");
    }

    /// Sends two requests, and waits until both have reached the origin.
    fn fill(&self, running: &Running, target: &str, fields: &str) -> [Client; 2] {
        let before = self.origin.requests().len();
        let clients = [(); 2].map(|()| Client::asking(running.public, target, fields));
        self.origin.wait_for_requests(before + 2);
        clients
    }
}

/// Fails unless further requests are refused now, on whichever worker.
#[track_caller]
fn assert_full(running: &Running) {
    for _ in 0..4 {
        let answer = get(running.public, "/", "");
        assert_eq!(answer.problem()["status"], 503);
    }
}

#[track_caller]
fn wait_for_room(running: &Running) {
    eventually("there is room again", || {
        (get(running.public, "/", "").status == 200).then_some(())
    });
}

#[test]
fn request_more_than_there_may_be_is_a_503_at_once_with_a_reason_of_its_own() {
    let full = Full::new();
    let running = start(&full.config("max_requests = 2"));
    let clients = full.fill(&running, "/held", "");
    assert_full(&running);
    assert_eq!(full.origin.requests().len(), 2);
    running.wait_for_metric("reason=\"upstream_full\"");
    full.gate.open();
    for mut client in clients {
        assert_eq!(client.answer().status, 200);
    }
    for _ in 0..10 {
        assert_eq!(get(running.public, "/", "").status, 200);
    }
}

#[test]
fn there_is_room_again_when_an_answer_has_ended_and_not_before() {
    let full = Full::new();
    let running = start(&full.config("max_requests = 2"));
    let clients = full.fill(&running, "/begun", "");
    let clients = clients.map(|mut client| {
        client
            .wire
            .read_until(b"ab")
            .expect("the beginning of an answer");
        client
    });
    assert_full(&running);
    full.gate.open();
    for mut client in clients {
        client.wire.read_until(b"cd").expect("the end of an answer");
    }
    wait_for_room(&running);
}

#[test]
fn there_is_room_again_when_a_client_leaves() {
    for target in ["/silent", "/begun"] {
        let full = Full::new();
        let running = start(&full.config("max_requests = 2"));
        let [one, other] = full.fill(&running, target, "");
        assert_full(&running);
        drop(one);
        wait_for_room(&running);
        drop(other);
        full.gate.open();
        wait_for_room(&running);
    }
}

#[test]
fn there_is_room_again_when_a_body_breaks_off() {
    let full = Full::new();
    let running = start(&full.config("max_requests = 2"));
    let _clients = full.fill(&running, "/broken", "");
    assert_full(&running);
    full.gate.open();
    wait_for_room(&running);
    let refilled = full.fill(&running, "/silent", "");
    assert_full(&running);
    drop(refilled);
}

#[test]
fn tunnel_has_its_place_until_it_ends() {
    let full = Full::new();
    let running = start(&full.config("max_requests = 2"));
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let clients = full.fill(&running, "/tunnel", upgrade);
    let clients = clients.map(|mut client| {
        assert_eq!(client.answer().status, 101);
        client
    });
    assert_full(&running);
    full.gate.open();
    drop(clients);
    wait_for_room(&running);
}

#[test]
fn request_that_fails_or_is_tried_twice_takes_one_place_while_it_lasts() {
    let (refusing, origin) = (Refusing::new(), Origin::plain());
    let config = Config::limited("", "quota = '100 per day'\npartition = []")
        .endpoints(&[refusing.url(), origin.url()])
        .upstream("max_requests = 1");
    let running = start(&config);
    for spent in 1..=6 {
        let answer = get(running.public, "/", "");
        assert_eq!((answer.status, remaining(&answer, "p")), (200, 100 - spent));
    }
    let failing = Config::to(refusing.url())
        .upstream("max_requests = 1")
        .route("/*", "");
    let running = start(&failing);
    let statuses = [(); 4].map(|()| get(running.public, "/", "").status);
    assert_eq!(statuses, [502; 4]);
}

#[test]
fn count_survives_a_reload() {
    let full = Full::new();
    let mut running = start(&full.config("max_requests = 2"));
    let clients = full.fill(&running, "/held", "");
    for (lines, status) in [
        ("max_requests = 2\nretries = 0", 503),
        ("max_requests = 3", 200),
    ] {
        full.reload(&mut running, lines);
        assert_eq!(get(running.public, "/", "").status, status, "{lines}");
    }
    full.gate.open();
    for mut client in clients {
        assert_eq!(client.answer().status, 200);
    }
    full.reload(&mut running, "max_requests = 1");
    wait_for_room(&running);
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const SWITCHED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
     Upgrade: websocket\r\n\r\n";
