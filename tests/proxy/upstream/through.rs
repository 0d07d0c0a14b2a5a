//! From a client's bytes to an origin's and back, through hyper's server as the gateway uses it.

use std::convert::Infallible;
use std::rc::Rc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::join;
use tokio::net::TcpListener;
use tollgate::proxy::upstream::builtin;
use tollgate::request::hop_by_hop;

use super::harness::{Gateway, Origin, Wire, worker};

/// Connects a client to a gateway in front of `origin`.
async fn client(origin: &Origin) -> Wire {
    let gateway = Rc::new(Gateway::new(&[origin]));
    let forward = move |mut request: Request<Incoming>| {
        let gateway = Rc::clone(&gateway);
        async move {
            hop_by_hop::strip_request(request.headers_mut());
            let response = gateway.send(request).await.expect("an answer");
            Ok::<_, Infallible>(response)
        }
    };
    serve(service_fn(forward)).await
}

async fn serve<S, B>(service: S) -> Wire
where
    S: hyper::service::HttpService<Incoming, ResBody = B> + 'static,
    S::Error: Into<super::harness::BoxError>,
    B: http_body::Body<Error: Into<super::harness::BoxError>> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = join!(Wire::connect(address), listener.accept());
    let io = TokioIo::new(accepted.expect("a client").0);
    let connection = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false)
        .serve_connection(io, service);
    tokio::task::spawn_local(async { connection.await.ok() });
    client
}

#[test]
fn trailers_pass_in_both_directions() {
    worker(async {
        let origin = Origin::new().await;
        let mut client = client(&origin).await;
        client
            .say(
                "POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\
                 transfer-encoding: chunked\r\ntrailer: x-sum, x-forwarded-for\r\n\r\n\
                 2\r\nhi\r\n0\r\nx-sum: 7\r\nx-forwarded-for: 1.1.1.1\r\n\r\n",
            )
            .await;
        let mut wire = origin.accept().await;
        let head = wire.head().await;
        assert!(head.contains("te: trailers\r\n") && head.contains("connection: te\r\n"));
        assert_eq!(wire.head().await, "2\r\nhi\r\n0\r\nx-sum: 7\r\n\r\n");
        wire.say(
            "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nho\r\n0\r\nx-sum: 8\r\n\r\n",
        )
        .await;
        assert_eq!(
            client.head().await,
            "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        assert_eq!(client.head().await, "2\r\nho\r\n0\r\nx-sum: 8\r\n\r\n");
    });
}

#[test]
fn trailers_pass_without_a_body_before_them() {
    worker(async {
        let origin = Origin::new().await;
        let mut client = client(&origin).await;
        client
            .say("GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\r\n")
            .await;
        let head = "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n";
        // They come with the head.
        let answer = format!("{head}0\r\nx-sum: 8\r\n\r\n");
        let (_wire, received) = join!(origin.answer(&answer), client.read_to(&answer));
        assert_eq!(received, answer);
    });
}

#[test]
fn response_is_framed_for_the_client_as_the_origin_framed_it() {
    for (method, answer, received) in [
        (
            "GET",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nkeep-alive: timeout=9\r\n\r\nok",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (
            "GET",
            "HTTP/1.0 200 Fine\r\nconnection: x-a\r\nx-a: 1\r\n\r\nok",
            "HTTP/1.1 200 Fine\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n",
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ),
        (
            "GET",
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
        ),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n",
        ),
    ] {
        worker(async {
            let origin = Origin::new().await;
            let mut client = client(&origin).await;
            let request = format!("{method} / HTTP/1.1\r\nhost: a\r\n\r\n");
            client.say(&request).await;
            drop(origin.answer(answer).await);
            client.say("GET /next HTTP/1.1\r\nhost: a\r\n\r\n").await;
            drop(origin.answer("HTTP/1.1 204 No Content\r\n\r\n").await);
            // The next answer shows that the client was left nothing of this one.
            let next = "HTTP/1.1 204 No Content\r\n\r\n";
            let expected = format!("{received}{next}");
            let text = client.read_to(&expected).await;
            assert_eq!(text, expected);
        });
    }
}

#[test]
fn broken_response_closes_the_client() {
    worker(async {
        let origin = Origin::new().await;
        let mut client = client(&origin).await;
        client.say("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let half = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
        drop(origin.answer(half).await);
        assert_eq!(client.rest().await, half);
    });
}

#[test]
fn client_that_leaves_closes_the_connection_to_the_origin() {
    worker(async {
        let origin = Origin::new().await;
        let mut client = client(&origin).await;
        client.say("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut wire = origin.accept().await;
        wire.head().await;
        drop(client);
        assert_eq!(wire.rest().await, "");
    });
}

#[test]
fn echo_answers_head_with_the_length_alone() {
    worker(async {
        let echo =
            |request: Request<Incoming>| async { Ok::<_, Infallible>(builtin::echo(request)) };
        let mut client = serve(service_fn(echo)).await;
        client.say("HEAD /a HTTP/1.1\r\nhost: h\r\n\r\n").await;
        let json =
            "{\"method\":\"HEAD\",\"path\":\"/a\",\"query\":null,\"headers\":{\"host\":\"h\"}}\n";
        assert_eq!(
            client.head().await,
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                json.len()
            )
        );
        client
            .say("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc")
            .await;
        assert_eq!(
            client.rest().await,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc"
        );
    });
}
