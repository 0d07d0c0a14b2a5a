//! The connections of the admin port: kept open, at their maximum, and slow.

use std::net::SocketAddr;

use super::api::{OfFile, config};
use crate::support::{Client, Config, Process, eventually};

/// Most connections that the admin port keeps open.
const MOST: usize = 64;
/// Most event streams that the admin port serves at once.
const MOST_STREAMS: usize = 16;

fn gateway() -> OfFile {
    OfFile::start(&config("10 per minute", ""))
}

fn live(client: &mut Client) -> u16 {
    client.get("/livez", "").status
}

#[test]
fn a_connection_carries_one_request_after_the_other() {
    let gateway = gateway();
    let mut client = Client::connect(gateway.admin());
    for _ in 0..3 {
        assert_eq!(live(&mut client), 200);
        client.send("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let head = client.answer_to_head();
        assert_eq!(head.status, 200);
    }
    client.send("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!([client.answer().status, client.answer().status], [200, 200]);
}

#[test]
fn a_full_port_closes_the_connection_that_has_waited_longest() {
    let gateway = gateway();
    let admin = gateway.admin();
    let mut clients: Vec<Client> = (0..MOST).map(|_| Client::connect(admin)).collect();
    for client in &mut clients {
        assert_eq!(live(client), 200);
    }
    // The oldest connection is now the one that was answered most recently.
    assert_eq!(live(&mut clients[0]), 200);
    assert_eq!(live(&mut Client::connect(admin)), 200);
    clients[1].assert_closed();
    assert_eq!(live(&mut clients[0]), 200);
    assert_eq!(live(&mut clients[2]), 200);
    // Connections that have sent no whole request do not stay either.
    let begun = |part: &&str| {
        let mut client = Client::connect(admin);
        client.send(part);
        client
    };
    let parts = ["", "GET /livez HTTP/1.1\r\nX-Slow: "].repeat(2 * MOST);
    let mut waiting: Vec<Client> = parts.iter().map(begun).collect();
    assert_eq!(live(&mut Client::connect(admin)), 200);
    let open = waiting
        .iter_mut()
        .filter_map(|client| client.is_silent().then_some(()));
    assert!(open.count() <= MOST, "more are open than may be");
}

#[test]
fn clients_that_send_or_read_nothing_keep_nobody_out() {
    let gateway = gateway();
    let admin = gateway.admin();
    let parts = [
        "",
        "GET /livez HT",
        "POST /api/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ];
    let hold = |address: SocketAddr, part: &str| {
        let mut client = Client::connect_narrow(address);
        // The connection may be closed already, to make room.
        let _ = client.wire.write(part.as_bytes());
        client
    };
    let clients: Vec<Client> = (0..3 * MOST)
        .map(|index| hold(admin, parts[index % parts.len()]))
        .collect();
    for _ in 0..10 {
        let status = eventually("the port answers", || {
            let mut client = Client::try_connect(admin).ok()?;
            client
                .wire
                .write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .ok()?;
            client.try_answer().ok()
        });
        assert_eq!(status.status, 200);
    }
    drop(clients);
}

#[test]
fn event_streams_are_bounded_and_make_room_for_nobody() {
    let token = "0123456789abcdef";
    let limited = Config::limited("builtin:echo", "quota = '1 per minute'");
    let process = Process::start(&limited.admin_token(token));
    let admin = process.admin;
    let follow = format!(
        "GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
         Accept: text/event-stream\r\n\r\n"
    );
    let begin = |client: &mut Client| {
        client.send(&follow);
        client.head().expect("a head")
    };
    let mut streams: Vec<Client> = (0..MOST_STREAMS).map(|_| Client::connect(admin)).collect();
    for client in &mut streams {
        let head = begin(client);
        assert_eq!(
            (head.status, head.field("content-type")),
            (200, Some("text/event-stream"))
        );
        // What was logged before the stream began.
        client.until("\"listening\"");
    }
    let mut one_more = Client::connect(admin);
    assert_eq!(one_more.ask(&follow).status, 503);
    let mut idle: Vec<Client> = (0..2 * MOST).map(|_| Client::connect(admin)).collect();
    assert_eq!(live(idle.last_mut().expect("there are some")), 200);
    process.signal("HUP");
    for client in &mut streams {
        client.until("\"the new configuration is in effect\"");
    }
    drop(streams.pop());
    eventually("there is room for another stream", || {
        (begin(&mut Client::connect(admin)).status == 200).then_some(())
    });
}
