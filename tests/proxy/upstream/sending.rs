//! What becomes of a request, and of the head of its response.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::join;
use tollgate::proxy::upstream::{ForwardError, NameTable, NoEndpoint, Resolver};

use super::harness::{Gateway, OK, Origin, data, get, read, request, stream, text, worker};

#[test]
fn refused_connection_is_the_upstreams_fault_and_costs_a_retry() {
    worker(async {
        let closed = Origin::new().await.address;
        let origin = Origin::new().await;
        let gateway = Gateway::with(&[closed, origin.address], |_| ());
        let (answer, _wire) = join!(gateway.send(get("/")), origin.answer(OK));
        assert_eq!(read(answer).await, "ok");
        let gateway = Gateway::with(&[closed], |_| ());
        let error = gateway.send(get("/")).await.err().expect("nobody is there");
        assert!(matches!(error, ForwardError::Connect(_)));
    });
}

#[test]
fn name_without_an_address_is_no_endpoint() {
    worker(async {
        let gateway = Gateway::with(&[([127, 0, 0, 1], 1).into()], |http| {
            http.endpoints[0].host = "no-such-host.invalid".into();
        });
        gateway
            .endpoints
            .resolve_by(Resolver::Table(NameTable::default()));
        let looked_up = async { gateway.endpoints.tick() };
        let (answer, ()) = join!(gateway.send(get("/")), looked_up);
        let why = NoEndpoint::Unresolved("no such name".into());
        assert!(matches!(answer.err(), Some(ForwardError::NoEndpoint(it)) if it == why));
    });
}

#[test]
fn connection_that_does_not_stand_in_time_is_a_connect_error() {
    worker(async {
        // A full backlog leaves further connections unanswered.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        let any: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
        socket.bind(&any.into()).expect("a port");
        socket.listen(0).expect("a backlog of one");
        let local = socket.local_addr().expect("an address");
        let address = local.as_socket().expect("an IP address");
        let _waiting = tokio::net::TcpStream::connect(address)
            .await
            .expect("the one");
        let gateway = Gateway::with(&[address], |http| http.retries = 0);
        let (answer, ()) = join!(gateway.send(get("/")), async {
            gateway.pass(Duration::from_secs(4));
        });
        assert!(matches!(answer.err(), Some(ForwardError::Connect(_))));
    });
}

#[test]
fn head_that_does_not_come_in_time_is_a_timeout_and_closes() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let (answer, mut wire) = join!(gateway.send(get("/")), async {
            let mut wire = origin.accept().await;
            wire.head().await;
            gateway.pass(Duration::from_secs(31));
            wire
        });
        assert!(matches!(answer.err(), Some(ForwardError::Timeout)));
        assert_eq!(wire.rest().await, "");
    });
}

#[test]
fn time_that_the_client_takes_over_its_body_is_not_the_upstreams() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let (frames, body) = stream();
        let (answer, ()) = join!(gateway.send(request("POST", "/", body)), async {
            let mut wire = origin.accept().await;
            wire.head().await;
            gateway.pass(Duration::from_mins(5));
            frames.send(Ok(data("slow"))).await.expect("a reader");
            wire.read_to("slow\r\n").await;
            gateway.pass(Duration::from_mins(5));
            drop(frames);
            wire.read_to("0\r\n\r\n").await;
            gateway.pass(Duration::from_secs(31));
        });
        assert!(matches!(answer.err(), Some(ForwardError::Timeout)));
    });
}

#[test]
fn informational_responses_are_dropped() {
    worker(async {
        let origin = Origin::new().await;
        let gateway = Gateway::new(&[&origin]);
        let answer = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n{OK}");
        let (answer, _wire) = join!(gateway.send(get("/")), origin.answer(&answer));
        assert_eq!(read(answer).await, "ok");
        assert_eq!(gateway.pools.idle(), 1);
    });
}

#[test]
fn request_arrives_as_it_was_sent() {
    // A body that an origin may not expect is the last thing on its connection.
    for (method, body, sent, idle) in [
        ("POST", text("abc"), "content-length: 3\r\n\r\nabc", 1),
        (
            "GET",
            text("abc"),
            "connection: close\r\ncontent-length: 3\r\n\r\nabc",
            0,
        ),
        (
            "GET",
            chunked(),
            "transfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            0,
        ),
        (
            "POST",
            chunked(),
            "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            1,
        ),
        ("DELETE", text(""), "\r\n", 1),
    ] {
        worker(async {
            let origin = Origin::new().await;
            let gateway = Gateway::new(&[&origin]);
            let expected = format!("{method} /a?b HTTP/1.1\r\nhost: shop.example\r\n{sent}");
            let (answer, (received, _wire)) =
                join!(gateway.send(request(method, "/a?b", body)), async {
                    let mut wire = origin.accept().await;
                    let mut received = vec![0; expected.len()];
                    wire.0.read_exact(&mut received).await.expect("a request");
                    wire.say(OK).await;
                    (received, wire)
                });
            read(answer).await;
            assert_eq!(String::from_utf8(received).expect("text"), expected);
            assert_eq!(gateway.pools.idle(), idle, "{expected}");
        });
    }
}

fn chunked() -> super::harness::TestBody {
    let (frames, body) = stream();
    frames.try_send(Ok(data("abc"))).expect("room for one");
    body
}
