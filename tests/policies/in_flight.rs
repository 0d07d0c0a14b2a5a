//! Units in flight: requests hold them until they have been answered, or have ended otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use http::{HeaderValue, Method};
use serde_json::json;

use super::stores::on_each_store;
use crate::support::http2::{self, Http2};
use crate::support::ratelimit::{item, remaining, state};
use crate::support::{
    After, Client, Config, Gate, Origin, Running, TOKEN, eventually, get, said, start,
};

/// Returns a file with a policy `p` of this quota for each API key, which has these further lines.
fn config(endpoint: impl AsRef<str>, quota: &str, lines: &str) -> Config {
    let lines = format!("quota = '{quota}'\npartition = ['header:x-api-key']\n{lines}");
    (Config::limited(endpoint, &lines).admin("127.0.0.1:0")).admin_token(TOKEN)
}

const ALICE: &str = "X-Api-Key: alice\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Returns how many units of Alice's quota are free.
fn free(running: &Running) -> u64 {
    let (status, report) = said(running, "get", "alice", &json!({}));
    assert_eq!(status, 200, "{report}");
    let remaining = &report["quotas"][0]["remaining"];
    remaining.as_u64().expect("a number")
}

/// Waits until this many units of Alice's quota are free.
#[track_caller]
fn wait_for(running: &Running, units: u64) {
    eventually("the units are as expected", || {
        (free(running) == units).then_some(())
    });
}

#[test]
fn a_unit_is_held_until_its_answer_has_ended() {
    on_each_store(|start| {
        let gate = Gate::default();
        let origin = Origin::behind(&gate);
        let running = start(config(origin.url(), "2 in flight", ""));
        let mut held: Vec<Client> = (0..2).map(|_| Client::connect(running.public)).collect();
        for (sent, client) in (1..).zip(&mut held) {
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ALICE}\r\n"));
            origin.wait_for_requests(sent);
        }
        let refused = get(running.public, "/", ALICE);
        assert_eq!((refused.status, refused.field("retry-after")), (429, None));
        assert_eq!(state(&refused), [item("p", &[("r", 0)])]);
        let said_policy = refused.field("ratelimit-policy");
        assert_eq!(said_policy, Some("\"p\";q=2;qu=\"concurrent-requests\""));
        assert_eq!(refused.field("x-ratelimit-limit"), None);
        assert_eq!(refused.problem()["violated-policies"], json!(["p"]));
        assert_eq!(free(&running), 0);
        let (status, report) = said(&running, "get", "alice", &json!({}));
        assert_eq!((status, &report["quotas"][0]["limit"]), (200, &json!(2)));
        // Another client has a quota of its own.
        let mut bob = Client::asking(running.public, "/", "X-Api-Key: bob\r\n");
        origin.wait_for_requests(3);
        gate.open();
        for client in &mut held {
            let answer = client.answer();
            assert_eq!(answer.status, 200);
        }
        assert_eq!(bob.answer().status, 200);
        wait_for(&running, 2);
        let again = get(running.public, "/", ALICE);
        assert_eq!((again.status, remaining(&again, "p")), (200, 1));
        // Operators can neither correct units in flight by hand nor replace them by another kind of quota.
        for (command, more) in [
            ("adjust", json!({ "units": -1 })),
            ("reset", json!({})),
            ("set", json!({ "quota": ["5 per minute"], "for": "1h" })),
        ] {
            let (status, why) = said(&running, command, "alice", &more);
            assert_eq!(status, 400, "{command}: {why}");
        }
    });
}

/// A way in which a request ends once the origin has its head.
type End = fn(Client, &Gate);

/// Starts an origin that ends the request for each target in its own way, some once the gate is open.
fn ending(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::scripted(move |exchange| {
        match exchange.target() {
            "/mute" => exchange.until_closed(),
            "/begun" | "/cut" => {
                exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin")?;
                if exchange.target() == "/begun" {
                    exchange.until_closed();
                }
            }
            "/none" => gate.wait(),
            "/retried" if exchange.index == 0 => gate.wait(),
            _ => {
                gate.wait();
                exchange.read_body()?;
                exchange.write(OK)?;
            }
        }
        Ok(After::Close)
    })
}

#[test]
fn whatever_ends_a_request_its_unit_comes_back() {
    on_each_store(|start| {
        let leaves: End = |client, _| client.wire.reset();
        let leaves_amid: End = |mut client, _| {
            client.until("begin");
            client.wire.reset();
        };
        let is_answered: End = |mut client, gate| {
            gate.open();
            client.answer();
        };
        let is_cut: End = |mut client, _| {
            client.until("begin");
            client.rest();
        };
        let half_closes: End = |mut client, _| {
            client.wire.finish_writing();
            client.rest();
        };
        let closes: End = |client, _| client.wire.close();
        for (what, target, is_held, end) in [
            ("left before its answer", "/mute", true, leaves),
            ("left amid its answer", "/begun", true, leaves_amid),
            ("cut by the upstream", "/cut", false, is_cut),
            ("not answered by the upstream", "/none", true, is_answered),
            (
                "answered at the second attempt",
                "/retried",
                true,
                is_answered,
            ),
            ("half-closed", "/mute", true, half_closes),
            ("closed", "/mute", true, closes),
            ("answered by the gateway", "/own", false, is_answered),
        ] {
            println!("{what}");
            let gate = Gate::default();
            let origin = ending(&gate);
            let config = config(origin.url(), "3 in flight", "").beside(
                "own",
                "builtin:echo",
                "/own",
                "policies = ['p']",
            );
            let running = start(config);
            let client = Client::asking(running.public, target, ALICE);
            if is_held {
                wait_for(&running, 2);
            }
            end(client, &gate);
            wait_for(&running, 3);
        }
    });
}

#[test]
fn a_stream_that_is_reset_gives_its_unit_back_and_its_connection_stays() {
    on_each_store(|start| {
        let origin = ending(&Gate::default());
        let running = start(config(origin.url(), "3 in flight", ""));
        let mut client = Http2::connect(running.public, 65_535);
        for target in ["/mute", "/begun"] {
            let mut request = http2::request(Method::GET, target);
            let key = HeaderValue::from_static("alice");
            request.headers_mut().insert("x-api-key", key);
            let mut stream = client.begin(request, true);
            wait_for(&running, 2);
            if target == "/begun" {
                assert_eq!(stream.status(), Ok(200));
            }
            stream.cancel();
            wait_for(&running, 3);
        }
    });
}

#[test]
fn a_reload_that_drops_the_policy_loses_no_unit_and_grants_none() {
    let gate = Gate::default();
    let origin = Origin::behind(&gate);
    let config = config(origin.url(), "2 in flight", "");
    let mut running = start(&config);
    let text = config.text();
    let without = text.replace("policies = ['p']", "");
    assert_ne!(text, without);
    let mut held: Vec<Client> = (0..2).map(|_| Client::connect(running.public)).collect();
    for (sent, client) in (1..).zip(&mut held) {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{ALICE}\r\n"));
        origin.wait_for_requests(sent);
    }
    let (start, _) = without.split_once("[policies.p]").expect("the policy");
    let (_, end) = without.split_once("[[routes]]").expect("the route");
    let without = format!("{start}[[routes]]{end}");
    running.gateway.reload(&without).expect("a good file");
    running.gateway.reload(&text).expect("a good file");
    assert_eq!(get(running.public, "/", ALICE).status, 429);
    let wider = text.replace("2 in flight", "3 in flight");
    running.gateway.reload(&wider).expect("a good file");
    assert_eq!(free(&running), 1);
    gate.open();
    for client in &mut held {
        assert_eq!(client.answer().status, 200);
    }
    wait_for(&running, 3);
}

#[test]
fn a_thousand_at_once_never_hold_more_than_there_are() {
    on_each_store(|start| {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (Arc::clone(&now), Arc::clone(&most));
        let origin = Origin::scripted(move |exchange| {
            let (now, most) = &counted;
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            exchange.read_body()?;
            thread::yield_now();
            // Counted out before the answer, because the gateway may admit another request as soon as it has the
            // answer.
            now.fetch_sub(1, SeqCst);
            exchange.write(OK)?;
            Ok(After::Keep)
        });
        let running = start(config(origin.url(), "20 in flight", ""));
        let admitted: usize = thread::scope(|scope| {
            let ask = || {
                let mut client = Client::connect(running.public);
                let answers = (0..10).map(|_| client.get("/", ALICE).status);
                answers.filter(|status| *status == 200).count()
            };
            let clients: Vec<_> = (0..100).map(|_| scope.spawn(ask)).collect();
            let answered = clients
                .into_iter()
                .map(|client| client.join().expect("answers"));
            answered.sum()
        });
        let most = most.load(SeqCst);
        assert!(most <= 20, "{most} at once");
        assert!(admitted >= 20, "{admitted} admitted");
        wait_for(&running, 20);
    });
}

#[test]
fn costs_are_units_and_plans_are_all_or_nothing() {
    on_each_store(|start| {
        let gate = Gate::default();
        let origin = Origin::behind(&gate);
        let config = config(origin.url(), "5 in flight", "")
            .policy(
                "rate",
                "quota = '3 per hour'\npartition = ['header:x-api-key']",
            )
            .route("/heavy", "policies = ['p']\ncost = { p = 4 }")
            .route("/both", "policies = ['rate', 'p']\ncost = { p = 2 }");
        let running = start(config);
        let mut heavy = Client::asking(running.public, "/heavy", ALICE);
        origin.wait_for_requests(1);
        assert_eq!(free(&running), 1);
        // A request that one policy refuses costs the other nothing.
        for _ in 0..5 {
            let refused = get(running.public, "/both", ALICE);
            assert_eq!((refused.status, remaining(&refused, "rate")), (429, 3));
            assert_eq!(refused.problem()["violated-policies"], json!(["p"]));
            assert_eq!(refused.field("retry-after"), None);
        }
        gate.open();
        assert_eq!(heavy.answer().status, 200);
        wait_for(&running, 5);
        for _ in 0..3 {
            assert_eq!(get(running.public, "/both", ALICE).status, 200);
        }
        let refused = get(running.public, "/both", ALICE);
        assert_eq!(refused.status, 429);
        assert_eq!(refused.problem()["violated-policies"], json!(["rate"]));
        wait_for(&running, 5);
    });
}
