//! A client that leaves is noticed in every phase of its request, and the fault is the client's.
//!
//! Held requests have tests of their own (`tests/threats/delayed.rs`).

use socket2::SockRef;

use crate::support::ratelimit::remaining;
use crate::support::{After, Client, Config, Gate, Origin, Process, Unreachable, get, start};

/// A gateway none of whose upstream timeouts ends within a day; `/echo` is answered at once.
fn patient(endpoint: &str) -> Config {
    Config::to(endpoint)
        .one_worker()
        .upstream("connect_timeout = '24h'\nresponse_timeout = '24h'\nbody_timeout = '24h'")
        .beside("echo", "builtin:echo", "/echo", "")
        .route("/*", "")
}

/// Waits until the gateway's only worker has done everything that was sent to it before.
#[track_caller]
fn settle(process: &Process) {
    assert_eq!(get(process.public, "/echo", "").status, 200);
}

/// Waits for the log line of a request that ended because its client left.
#[track_caller]
fn wait_for_leaving(process: &Process, path: &str) {
    process.wait_for_line(&[path, "\"client_gone\"", "\"fault\":\"client\""]);
}

const UPLOAD: &str = "POST /upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\n";

#[test]
fn client_that_resets_behind_an_upload_that_the_origin_does_not_read_is_noticed() {
    // Opened at the end, only to let the origin's thread finish.
    let over = Gate::default();
    for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"] {
        let origin = Origin::scripted({
            let over = over.clone();
            move |exchange| {
                exchange.write(answer)?;
                over.wait();
                Ok(After::Close)
            }
        });
        let process = Process::start(&patient(&origin.url()));
        let mut client = Client::connect(process.public);
        client.send(UPLOAD);
        let body = vec![b'x'; 32 << 20];
        let taken = client.wire.write_until_full(&body, || settle(&process));
        assert!(taken < body.len(), "the origin reads none of it");
        origin.wait_for_requests(1);
        if !answer.is_empty() {
            assert_eq!(client.head().expect("a head").status, 200);
        }
        client.wire.reset();
        wait_for_leaving(&process, "/upload");
    }
    over.open();
}

#[test]
fn client_that_leaves_while_the_gateway_connects_is_noticed_whatever_it_has_sent() {
    let unreachable = Unreachable::new();
    let process = Process::start(&patient(&unreachable.url()));
    for (case, request) in [
        "GET /0 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /behind HTTP/1.1\r\n",
        "POST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
        "POST /3 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\n\r\nhello",
        "POST /4 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "POST /5 HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = Client::connect(process.public);
        client.send(request);
        settle(&process);
        assert!(client.is_silent(), "{request}");
        drop(client);
        wait_for_leaving(&process, &format!("\"/{case}\""));
    }
}

#[test]
fn client_that_leaves_with_a_request_behind_the_one_that_is_served_is_noticed() {
    let origin = Origin::mute();
    let running = start(&patient(&origin.url()));
    let mut client = Client::connect(running.public);
    client.send("GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_requests(1);
    drop(client);
    origin.wait_for_ended(1);
    assert_eq!(origin.targets(), ["/1"]);
}

#[test]
fn request_whose_client_has_left_is_neither_sent_nor_charged_on_any_kept_connection() {
    let over = Gate::default();
    let origin = Origin::scripted({
        let over = over.clone();
        move |exchange| {
            if exchange.target() == "/busy" {
                over.wait();
            }
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            Ok(After::Keep)
        }
    });
    let inner = start(&Config::to(origin.url()).route("/*", ""));
    for (case, endpoint) in [origin.url(), format!("h2c://{}", inner.public)]
        .iter()
        .enumerate()
    {
        let config = patient(endpoint).policy("p", "quota = '9 per day'");
        let process = Process::start(&config.route("/limited/*", "policies = ['p']"));
        let mut busy = Client::connect(process.public);
        busy.send("GET /busy HTTP/1.1\r\nHost: a.test\r\n\r\n");
        origin.wait_for_requests(3 * case + 1);
        // Over HTTP/1.1 this request leaves an idle connection behind; over HTTP/2 it shares the busy one.
        assert_eq!(get(process.public, "/kept", "").status, 200);
        let mut client = Client::connect(process.public);
        // The request and the end of the connection arrive together.
        SockRef::from(&client.wire.stream)
            .set_tcp_cork(true)
            .expect("a socket takes options");
        client.send("GET /limited/gone HTTP/1.1\r\nHost: a.test\r\n\r\n");
        drop(client);
        wait_for_leaving(&process, "\"/limited/gone\"");
        let next = get(process.public, "/limited/next", "");
        assert_eq!((next.status, remaining(&next, "p")), (200, 8), "{endpoint}");
    }
    let once = ["/busy", "/kept", "/limited/next"];
    assert_eq!(origin.targets(), [once, once].concat());
    over.open();
}

/// Closes the client's sending side, and returns everything it receives until the end.
fn after_half_close(client: &mut Client) -> String {
    client.wire.finish_writing();
    String::from_utf8(client.rest()).expect("text")
}

#[test]
fn client_that_closes_its_sending_side_is_gone_in_every_phase() {
    let origin = Origin::scripted(|exchange| {
        if exchange.head.start.contains("/half") {
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")?;
        }
        exchange.until_closed();
        Ok(After::Close)
    });
    let process = Process::start(&patient(&origin.url()));
    let begin = |bytes: &str| {
        let mut client = Client::connect(process.public);
        client.send(bytes);
        client
    };
    let host = "Host: a.test\r\n";

    // Before a head, within one, and between two requests, the gateway closes without an answer.
    assert_eq!(after_half_close(&mut begin("")), "");
    assert_eq!(after_half_close(&mut begin("GET /half HTTP/1.1\r\nHo")), "");
    let mut client = Client::connect(process.public);
    assert_eq!(client.get("/echo", "").status, 200);
    assert_eq!(after_half_close(&mut client), "");

    // Within a body of a request.
    let mut client = begin(&format!(
        "POST /body HTTP/1.1\r\n{host}Content-Length: 9\r\n\r\nhello"
    ));
    origin.wait_for_requests(1);
    assert_eq!(after_half_close(&mut client), "");
    wait_for_leaving(&process, "\"/body\"");

    // While the origin has not answered, and while its answer is on its way.
    let mut client = begin(&format!("GET /mute HTTP/1.1\r\n{host}\r\n"));
    origin.wait_for_requests(2);
    assert_eq!(after_half_close(&mut client), "");
    wait_for_leaving(&process, "\"/mute\"");
    let mut client = begin(&format!("GET /half HTTP/1.1\r\n{host}\r\n"));
    client.wire.read_until(b"half").expect("half an answer");
    assert_eq!(after_half_close(&mut client), "");
    wait_for_leaving(&process, "\"/half\"");
    origin.wait_for_ended(3);
}
