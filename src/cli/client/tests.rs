use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use serde_json::json;

use super::*;

/// Returns a client of a port that answers once, with `answer`.
fn client_of(answer: &'static str) -> AdminClient {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut wire, _) = listener.accept().expect("a client");
        let mut head = [0; 1024];
        let length = wire.read(&mut head).expect("a request");
        let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
        assert!(head.contains("accept: text/event-stream\r\n"), "{head}");
        wire.write_all(answer.as_bytes()).expect("it is read");
    });
    let token = None;
    AdminClient { address, token }
}

/// Follows a stream to its end; returns its events, and why there are no more.
fn followed(client: &AdminClient) -> (Vec<AdminEvent>, ClientError) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut seen = Vec::new();
        let mut events = match client.follow("/api/live").await {
            Ok(events) => events,
            Err(error) => return (seen, error),
        };
        loop {
            match events.next().await {
                Ok(event) => seen.push(event),
                Err(error) => return (seen, error),
            }
        }
    })
}

#[test]
fn events_come_until_the_gateway_closes_the_stream() {
    let client = client_of(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: ready\n\nevent: step\ndata: {\"a\":1}\n\n",
    );
    let (seen, error) = followed(&client);
    let expected = AdminEvent {
        name: "step".to_owned(),
        data: json!({ "a": 1 }),
    };
    assert_eq!(seen, [expected]);
    assert!(matches!(error, ClientError::Closed(_)), "{error}");
}

#[test]
fn why_there_is_no_stream_is_said() {
    let head =
        "Content-Type: application/problem+json\r\nContent-Length: 16\r\n\r\n{\"detail\":\"why\"}";
    let answer = |status: &str| -> &'static str { format!("HTTP/1.1 {status}\r\n{head}").leak() };
    let said = |answer| followed(&client_of(answer)).1;
    let token = said(answer("401 Unauthorized"));
    assert!(matches!(token, ClientError::Token(_)), "{token}");
    for status in ["404 Not Found", "503 Service Unavailable"] {
        let refused = said(answer(status)).to_string();
        assert_eq!(refused, "the gateway refused: why");
    }
    for foreign in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: <html>\n\n",
    ] {
        let error = said(foreign);
        assert!(matches!(error, ClientError::Foreign(_)), "{error}");
    }
    let (address, token) = (SocketAddr::from(([127, 0, 0, 1], 1)), None);
    let (_, error) = followed(&AdminClient { address, token });
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}
