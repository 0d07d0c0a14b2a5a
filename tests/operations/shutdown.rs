//! How a gateway ends: it answers what clients have begun to send, and nothing makes it wait too long.

use std::thread;

use crate::support::{
    After, Client, Config, Gate, Origin, Process, Stepped, eventually, get, start,
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
    let config = Config::to(origin.url())
        .top("shutdown_grace = '4s'")
        .route("/*", "")
        .beside("echo", "builtin:echo", "/echo", "");
    let mut process = Process::start(&config);
    let mut idle = [(); 2].map(|()| Client::connect(process.public));
    for client in &mut idle {
        assert_eq!(client.get("/echo", "").status, 200);
    }
    let [mut asking, mut silent] = idle;
    let mut busy = Client::connect(process.public);
    busy.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    process.signal("TERM");
    eventually("nobody listens", || {
        Client::try_connect(process.public).err()
    });
    eventually("an answer says that it is the last", || {
        let answer = asking.get("/echo", "");
        assert_eq!(answer.status, 200);
        answer.says_close().then_some(())
    });
    asking.assert_closed();
    gate.open();
    let answer = busy.answer();
    assert_eq!((answer.status, answer.text()), (200, "halfdone".to_owned()));
    for client in [&mut busy, &mut silent] {
        client.assert_closed();
    }
    assert!(process.wait().success());
    let cut = "the shutdown grace period has ended";
    assert!(!process.lines().iter().any(|line| line.contains(cut)));
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
        let ending = thread::spawn(move || running.gateway.shutdown());
        for mut client in clients {
            assert_eq!(client.answer().status, 200);
        }
        ending.join().expect("shutting down does not fail");
    }
}

/// A request that a client has begun to send is answered, if it is completed while the gateway is ending.
#[test]
fn what_a_client_has_begun_to_send_is_awaited_when_the_gateway_ends() {
    let gate = Gate::default();
    let origin = Origin::scripted({
        let gate = gate.clone();
        move |exchange| {
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")?;
            gate.wait();
            exchange.write("done")?;
            Ok(After::Keep)
        }
    });
    let config = Config::to(origin.url()).route("/*", "").beside("echo", "builtin:echo", "/echo", "").with("[listeners.proxied]\naddress = '127.0.0.1:0'\nproxy_protocol = true\ntrusted_proxies = ['127.0.0.1']",);
    let mut running = Stepped::start(&config);
    let (public, proxied) = (running.public, running.address("proxied"));
    let request = "GET /echo HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let slow = request.replace("echo", "slow");
    let header = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n";
    // Name, address, answers that come first, what is sent before them, and what is sent in part and completed later.
    let rows = [
        (
            "a fresh head",
            public,
            0,
            String::new(),
            request.to_string(),
        ),
        (
            "a kept head",
            public,
            1,
            request.to_owned(),
            request.to_owned(),
        ),
        (
            "a head behind a request",
            public,
            0,
            slow.clone(),
            request.to_owned(),
        ),
        (
            "a PROXY header",
            proxied,
            0,
            String::new(),
            format!("{header}{request}"),
        ),
        (
            "a head behind a PROXY header",
            proxied,
            0,
            header.to_owned(),
            request.to_owned(),
        ),
    ];
    let mut clients: Vec<_> = rows
        .iter()
        .flat_map(|row| [1, 9, row.4.len() - 1].map(|come| (row, come)))
        .map(|((name, address, answered, before, then), come)| {
            let mut client = Client::connect(*address);
            client.send(before);
            for _ in 0..*answered {
                assert!(!client.answer().says_close(), "{name}");
            }
            client.send(&then[..come]);
            (name, client, &then[come..])
        })
        .collect();
    // A whole request is awaited too, if the answer before it has not said that it is the last.
    let mut behind = Client::connect(public);
    behind.send(format!("{slow}{request}"));
    // A client that has sent nothing is not awaited for long.
    let mut silent = [public, proxied].map(Client::connect);
    origin.wait_for_requests(4);
    running.settle();
    let ending = thread::spawn(move || running.gateway.shutdown());
    for client in &mut silent {
        client.assert_closed();
    }
    gate.open();
    for (name, client, rest) in &mut clients {
        client.send(*rest);
        if name.ends_with("behind a request") {
            assert_eq!(client.answer().text(), "halfdone");
        }
        let answer = client.answer();
        assert_eq!((answer.status, answer.says_close()), (200, true), "{name}");
        client.assert_closed();
    }
    assert_eq!(behind.answer().text(), "halfdone");
    assert!(behind.answer().says_close());
    behind.assert_closed();
    ending.join().expect("shutting down does not fail");
}
