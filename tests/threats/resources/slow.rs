//! Clients that send or read next to nothing, and one that behaves well.

use crate::support::wire::is_reset;
use crate::support::{
    Client, Config, Framing, Metered, Origin, Running, eventually, get, secs, start,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
/// Number of slow clients: a third of them send their heads slowly, a third their bodies, and a third read slowly.
const SLOW: usize = 201;

fn connect(running: &Running, request: &str) -> Vec<Client> {
    let clients = (0..SLOW / 3).map(|_| {
        let mut client = Client::connect_narrow(running.public);
        client.send(request);
        client
    });
    clients.collect()
}

/// Sends one more byte from each client; some may have been cut already, which is not checked here.
fn trickle(clients: &mut [Client]) {
    for client in clients {
        let _ = client.wire.write(b"x");
    }
}

#[test]
fn slow_clients_are_ended_by_their_deadlines_and_keep_nobody_waiting() {
    let origin = Origin::endless();
    let config = Config::to(origin.url())
        .admin("127.0.0.1:0")
        .listener("header_timeout = '10s'\nbody_timeout = '30s'")
        .upstream("body_timeout = '24h'")
        .route("/*", "");
    let running = start(&config);
    let mut heads = connect(&running, "GET / HTTP/1.1\r\nHost: a.test\r\nX-Slow: ");
    let mut bodies = connect(
        &running,
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n",
    );
    let readers = connect(&running, "GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(SLOW / 3 * 2);
    let mut good = Client::connect(running.public);
    let open = eventually("all are connected", || {
        let open = running.metric("tollgate_connections_open");
        (open == SLOW as u64 + 1).then_some(open)
    });
    for second in 0..12 {
        trickle(&mut heads);
        trickle(&mut bodies);
        assert_eq!(good.ask(GET).status, 200, "after {second} s");
        assert_eq!(get(running.public, "/", "").status, 200, "after {second} s");
        running.clock.advance(secs(1));
    }
    for client in &mut heads {
        assert_eq!(client.answer().status, 408);
        client.assert_closed();
    }
    let timeouts = "tollgate_malformed_total{reason=\"timeout\"}";
    // A slow head is counted once the gateway has ended its connection, which its client may notice earlier.
    eventually("each slow head is counted", || {
        (running.metric(timeouts) == SLOW as u64 / 3).then_some(())
    });
    // Until the clients close, too, the gateway reads what they send, so that they can read their answers.
    drop(heads);
    // Bodies that progress, however slowly, are not cut; those that stop are.
    eventually("only slow heads are gone", || {
        (running.metric("tollgate_connections_open") == open - SLOW as u64 / 3).then_some(())
    });
    for second in 12..50 {
        assert_eq!(good.ask(GET).status, 200, "after {second} s");
        running.clock.advance(secs(1));
    }
    for client in &mut bodies {
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.json()["status"].as_u64()),
            (408, Some(408))
        );
    }
    for client in readers {
        let mut answer = client;
        let head = answer.head().expect("the head came at once");
        assert_eq!(
            (head.status, head.framing),
            (200, Framing::Length(1_000_000_000))
        );
        let end = answer.finish(&mut head.clone());
        let error = end.expect_err("what was not taken in time is not sent");
        assert!(is_reset(&error), "{error}");
    }
    drop(bodies);
    eventually("only the good client is left", || {
        running.clock.advance(secs(1));
        assert_eq!(good.ask(GET).status, 200);
        (running.metric("tollgate_connections_open") == 1).then_some(())
    });
    drop(good);
    eventually("nobody is left", || {
        (running.metric("tollgate_connections_open") == 0).then_some(())
    });
    origin.wait_for_ended(SLOW / 3 * 2);
    assert_eq!(running.metric("tollgate_requests_delayed"), 0);
    assert_eq!(running.metric("tollgate_panics_total"), 0);
}
