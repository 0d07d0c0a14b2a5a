//! A full listener: which connections are evicted for newcomers, and which ones are not.

use crate::support::{
    Client, Config, Flow, Metered, Origin, PATIENCE, Running, Stepped, secs, start,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Starts a gateway for at most that many connections, with one worker and with deadlines far away.
fn full_at(connections: usize, endpoint: &str) -> Stepped {
    let config = Config::to(endpoint)
        .admin("127.0.0.1:0")
        .listener(&format!("max_connections = {connections}"))
        .listener("header_timeout = '1h'\nidle_timeout = '1h'\nbody_timeout = '1h'")
        .upstream("response_timeout = '1h'\nbody_timeout = '1h'")
        .route("/*", "");
    Stepped::start(&config)
}

/// Returns how many of the clients have not been told that their connection ends.
fn open(clients: &mut [Client]) -> usize {
    let open = clients
        .iter_mut()
        .filter_map(|client| client.is_silent().then_some(()));
    open.count()
}

/// Connects, and has one request answered.
#[track_caller]
fn served(running: &Running) -> Client {
    let mut client = Client::connect(running.public);
    assert_eq!(client.ask(GET).status, 200);
    client
}

#[test]
fn newcomer_takes_the_place_of_the_connection_that_waited_longest() {
    let running = full_at(2, "builtin:status/200");
    let mut first = served(&running);
    running.clock.advance(secs(2));
    let mut second = served(&running);
    running.clock.advance(secs(2));
    // The time since the latest request counts, not since the first one.
    assert_eq!(first.ask(GET).status, 200);
    running.clock.advance(secs(2));
    let mut third = served(&running);
    second.assert_closed();
    assert_eq!(first.ask(GET).status, 200);
    assert_eq!(third.ask(GET).status, 200);
    let open = "tollgate_connections_open{listener=\"public\"}";
    assert_eq!(running.metric(open), 2);
    assert_eq!(running.metric("tollgate_connections_evicted_total"), 1);
}

#[test]
fn whoever_has_just_been_answered_is_not_evicted() {
    let running = full_at(2, "builtin:status/200");
    let _clients = [(); 2].map(|()| served(&running));
    let mut newcomer = Client::connect(running.public);
    newcomer.send(GET);
    running.settle();
    assert!(newcomer.is_silent(), "there is no room");
}

#[test]
fn thousands_that_only_connect_keep_nobody_out() {
    const MOST: usize = 400;
    // A descriptor for the client's end of each connection, and one for the gateway's end of those that it accepts.
    let descriptors = rlimit::increase_nofile_limit(u64::MAX).expect("a limit");
    assert!(descriptors > 4_000, "too few descriptors");
    let running = full_at(MOST, "builtin:status/200");
    let mut silent: Vec<_> = (0..3_000)
        .map(|_| Client::connect(running.public))
        .collect();
    let mut good = Client::connect(running.public);
    // A busy machine takes longer to accept thousands than to answer one.
    good.wire.patience(6 * PATIENCE);
    good.send(GET);
    {
        let _time = Flow::of(&running.clock, secs(1));
        assert_eq!(good.answer().status, 200);
    }
    // The good client takes one of the places, so one of the crowd was evicted for it.
    assert!(open(&mut silent) < MOST, "more are open than may be");
}

#[test]
fn whoever_has_begun_a_request_is_not_evicted() {
    let origin = Origin::mute();
    let running = full_at(2, &origin.url());
    let mut busy = Client::connect(running.public);
    busy.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nabc");
    origin.wait_for_requests(1);
    let mut head = Client::connect(running.public);
    head.send("GET / HTTP/1.1\r\nHost:");
    running.settle();
    let mut newcomer = Client::connect(running.public);
    newcomer.send(GET);
    for _ in 0..5 {
        running.advance(secs(60));
        assert!(newcomer.is_silent(), "there was no room");
    }
    assert!(busy.is_silent() && head.is_silent());
    assert_eq!(running.metric("tollgate_connections_evicted_total"), 0);
    drop(busy);
    origin.wait_for_requests(2);
}

#[test]
fn connections_of_another_listener_are_not_evicted() {
    let config = Config::to("builtin:status/200")
        .admin("127.0.0.1:0")
        .listener("max_connections = 1\nheader_timeout = '1h'\nidle_timeout = '1h'")
        .with("[listeners.other]\naddress = '127.0.0.1:0'\nidle_timeout = '1h'")
        .route("/*", "");
    let running = start(&config);
    let other = running.address("other");
    let mut neighbour = Client::connect(other);
    assert_eq!(neighbour.ask(GET).status, 200);
    running.clock.advance(secs(60));
    let mut first = served(&running);
    running.clock.advance(secs(2));
    assert_eq!(served(&running).ask(GET).status, 200);
    first.assert_closed();
    assert_eq!(neighbour.ask(GET).status, 200);
}
