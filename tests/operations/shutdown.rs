//! How a gateway ends: what it has begun is answered, and nothing makes it wait too long.

use std::sync::mpsc;
use std::thread;

use crate::support::{
    After, Client, Config, Gate, Origin, PATIENCE, Process, eventually, get, start,
};

#[test]
fn a_terminated_process_answers_what_it_has_begun() {
    let gate = Gate::default();
    let origin = Origin::scripted({
        let gate = gate.clone();
        move |exchange| {
            exchange.read_body()?;
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")?;
            gate.wait();
            exchange.write("done")?;
            Ok(After::Keep)
        }
    });
    let config = Config::to(origin.url()).route("/*", "").with(
        "[upstreams.echo]\nendpoints = ['builtin:echo']\n\
         [[routes]]\npath = '/echo'\nupstream = 'echo'",
    );
    let mut process = Process::start(&config);
    let mut idle = Client::connect(process.public);
    assert_eq!(idle.get("/echo", "").status, 200);
    let mut busy = Client::connect(process.public);
    busy.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    process.signal("TERM");
    idle.assert_closed();
    eventually("nobody listens", || {
        Client::try_connect(process.public).err()
    });
    gate.open();
    let answer = busy.answer();
    assert_eq!((answer.status, answer.text()), (200, "halfdone".to_owned()));
    busy.assert_closed();
    assert!(process.wait().success());
}

#[test]
fn a_terminated_process_ends_when_its_grace_is_over() {
    let origin = Origin::mute();
    let config = Config::to(origin.url()).top("shutdown_grace = '200ms'");
    let mut process = Process::start(&config.route("/*", ""));
    let mut client = Client::connect(process.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    process.signal("TERM");
    client.assert_closed();
    assert!(process.wait().success());
}

#[test]
fn an_interrupted_process_does_not_wait() {
    let origin = Origin::mute();
    let config = Config::to(origin.url()).top("shutdown_delay = '1h'\nshutdown_grace = '1h'");
    let mut process = Process::start(&config.route("/*", ""));
    let mut client = Client::connect(process.public);
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    process.signal("INT");
    client.assert_closed();
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn a_terminated_process_is_not_ready_before_it_stops_accepting() {
    let config = Config::to("builtin:echo").top("shutdown_delay = '1s'");
    let mut process = Process::start(&config.route("/*", ""));
    assert_eq!(get(process.admin, "/readyz", "").status, 200);
    process.signal("TERM");
    eventually("it is not ready", || {
        (get(process.admin, "/readyz", "").status == 503).then_some(())
    });
    assert_eq!(get(process.admin, "/livez", "").status, 200);
    assert_eq!(get(process.public, "/", "").status, 200);
    assert!(process.wait().success());
}

#[test]
fn request_that_was_queued_when_the_gateway_ended_is_answered() {
    let config = Config::to("builtin:echo").one_worker().route("/*", "");
    for _ in 0..20 {
        let mut running = start(&config);
        let mut clients: Vec<_> = (0..100).map(|_| Client::connect(running.public)).collect();
        for client in &mut clients {
            client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        }
        running.gateway.shutdown();
        for client in &mut clients {
            assert_eq!(client.answer().status, 200);
            client.assert_closed();
        }
    }
}

#[test]
fn hurried_shutdown_does_not_wait_out_its_delay() {
    let config = Config::to("builtin:echo").top("shutdown_delay = '1h'");
    let mut running = start(&config.route("/*", ""));
    running.gateway.forcer()();
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        running.gateway.shutdown();
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(PATIENCE).expect("an end");
}
