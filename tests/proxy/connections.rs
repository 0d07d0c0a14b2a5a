//! What a client's connection may do to the gateway: be slow, leave, or send something that is not HTTP.

use std::io::Write as _;
use std::thread;
use std::time::Duration;

use crate::support::{After, Client, Config, Metered, Origin, Running, start};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn open(endpoint: &str, listener: &str) -> Running {
    start(&Config::to(endpoint).listener(listener).route("/*", ""))
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let origin = Origin::scripted(|exchange| {
        exchange.read_body()?;
        let request = exchange.head.start.clone();
        let length = request.len();
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{request}"
        ))?;
        Ok(After::Keep)
    });
    let config = Config::to(origin.url())
        .policy("p", "quota = '1 per hour'\npartition = []")
        .route("/limited", "policies = ['p']")
        .route("/*", "");
    let running = start(&config);
    let mut client = Client::connect(running.public);
    let host = "Host: a.test\r\n";
    client.send(format!(
        "GET /1 HTTP/1.1\r\n{host}\r\nPOST /2 HTTP/1.1\r\n{host}Content-Length: 3\r\n\r\nabc\
         GET /limited HTTP/1.1\r\n{host}\r\nGET /limited HTTP/1.1\r\n{host}\r\n\
         POST /5 HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n\
         GET /6 HTTP/1.1\r\n{host}Connection: close\r\n\r\n"
    ));
    let answers = [(); 6].map(|()| client.answer());
    assert_eq!(
        answers.each_ref().map(|x| x.status),
        [200, 200, 200, 429, 200, 200]
    );
    assert_eq!(answers[1].text(), "POST /2 HTTP/1.1");
    assert_eq!(answers[4].text(), "POST /5 HTTP/1.1");
    client.assert_closed();
    let targets = origin.targets();
    assert_eq!(targets, ["/1", "/2", "/limited", "/5", "/6"]);
}

#[test]
fn an_http_1_0_connection_is_kept_only_behind_an_answer_whose_end_is_told() {
    let origin = Origin::scripted(|exchange| {
        let answer = match exchange.target() {
            "/length" => "200 OK\r\nContent-Length: 2\r\n\r\nok",
            "/empty" => "200 OK\r\nContent-Length: 0\r\n\r\n",
            "/none" => "204 No Content\r\n\r\n",
            "/unchanged" => "304 Not Modified\r\n\r\n",
            "/chunked" => "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            _ => "200 OK\r\n\r\nok",
        };
        exchange.write(format!("HTTP/1.1 {answer}"))?;
        Ok(match exchange.target() {
            "/close" => After::Close,
            _ => After::Keep,
        })
    });
    let running = open(&origin.url(), "");
    for (method, target, body, is_kept) in [
        ("GET", "/length", "ok", true),
        ("GET", "/empty", "", true),
        ("GET", "/none", "", true),
        ("GET", "/unchanged", "", true),
        ("HEAD", "/length", "", true),
        ("GET", "/chunked", "ok", false),
        ("GET", "/close", "ok", false),
    ] {
        let mut client = Client::connect(running.public);
        for turn in 0..2 {
            client.send(format!(
                "{method} {target} HTTP/1.0\r\nHost: a.test\r\nConnection: Keep-Alive\r\n\r\n"
            ));
            let answer = match method {
                "HEAD" => client.answer_to_head(),
                _ => client.answer(),
            };
            let case = format!("{method} {target}, {turn}: {answer:#?}");
            assert_eq!(answer.text(), body, "{case}");
            assert_eq!(answer.field("transfer-encoding"), None, "{case}");
            let options = answer.head.listed("connection");
            let expected = if is_kept { "keep-alive" } else { "close" };
            assert_eq!(options, [expected], "{case}");
            if !is_kept {
                client.assert_closed();
                break;
            }
        }
    }
}

#[test]
fn more_connections_are_accepted_once_a_reload_allows_them() {
    let config = Config::to("builtin:echo").one_worker().route("/*", "");
    let mut running = start(&config.clone().listener("max_connections = 1"));
    let mut first = Client::connect(running.public);
    assert_eq!(first.ask(GET).status, 200);
    let mut second = Client::connect(running.public);
    second.send(GET);
    let wider = config.listener("max_connections = 2").text();
    running.gateway.reload(&wider).expect("a good file");
    assert_eq!(second.answer().status, 200);
}

/// Connections that have been idle for two seconds have given up their buffers.
#[test]
fn connections_that_were_idle_serve_as_before() {
    let origin = Origin::plain();
    let running = start(
        &Config::to(origin.url())
            .admin("127.0.0.1:0")
            .route("/*", ""),
    );
    let mut silent = Client::connect(running.public);
    let [
        mut whole,
        mut cut,
        mut two,
        mut long,
        mut large,
        mut padded,
        mut bad,
        mut done,
    ] = [(); 8].map(|()| {
        let mut client = Client::connect(running.public);
        assert_eq!(client.ask(GET).status, 200);
        client
    });
    // Empty lines may come before a request.
    padded.send("\r\n");
    thread::sleep(IDLE_FOR_LONG);
    for client in [&mut silent, &mut whole, &mut padded] {
        assert_eq!(client.ask(GET).status, 200);
        assert_eq!(client.ask(GET).status, 200);
    }
    for part in ["GET / HT", "TP/1.1\r\nHost: a.test\r", "\n\r\n"] {
        cut.send(part);
    }
    assert_eq!(cut.answer().status, 200);
    two.send([GET, GET].concat());
    assert_eq!([two.answer().status, two.answer().status], [200, 200]);
    let field = format!("X: {}\r\n", "x".repeat(20_000));
    assert_eq!(long.get("/", &field).status, 200);
    let framing = "Transfer-Encoding: chunked";
    let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n");
    assert_eq!(large.ask(message(&head, framing, 1 << 20)).status, 200);
    let bodies = origin
        .requests()
        .into_iter()
        .map(|request| request.body.len());
    assert_eq!(bodies.max(), Some(1 << 20));
    assert_eq!(bad.ask("GET / HTTP/1.1\nHost: a.test\n\n").status, 400);
    bad.assert_closed();
    running.wait_for_metric("tollgate_malformed_total{reason=\"syntax\"} 1\n");
    done.wire.finish_writing();
    done.assert_closed();
}

/// Connections are checked once a second, and must be idle at two checks in a row.
const IDLE_FOR_LONG: Duration = Duration::from_millis(2_500);

#[test]
fn a_client_that_reads_nothing_until_it_has_sent_everything_deadlocks_nothing() {
    const BODY_BYTES: usize = 16 << 20;
    for framing in [
        format!("Content-Length: {BODY_BYTES}"),
        "Transfer-Encoding: chunked".to_owned(),
    ] {
        let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
        let origin = Origin::scripted({
            let framing = framing.clone();
            move |exchange| {
                let mut answering = exchange.wire.second_handle();
                let mut answer = message(&head, &framing, BODY_BYTES);
                // Whatever a client sends after its answer is dropped, so the answer must end after the request's body.
                let last = answer.split_off(answer.len() - 1);
                let writer = thread::spawn(move || answering.write_all(&answer));
                exchange.read_body()?;
                writer.join().expect("writing does not panic")?;
                exchange.wire.write(&last)?;
                Ok(After::Keep)
            }
        });
        let running = open(&origin.url(), "");
        let mut client = Client::connect(running.public);
        let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n\r\n");
        client.send(message(&head, &framing, BODY_BYTES));
        assert_eq!(client.answer().body.len(), BODY_BYTES, "{framing}");
        assert_eq!(origin.only_request().body.len(), BODY_BYTES);
    }
}

/// Returns a message with a body of `body_bytes` bytes.
fn message(head: &str, framing: &str, body_bytes: usize) -> Vec<u8> {
    let body = vec![b'x'; body_bytes];
    if framing.starts_with("Content-Length") {
        return [head.as_bytes(), &body].concat();
    }
    let size = format!("{body_bytes:x}\r\n");
    [head.as_bytes(), size.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
}
