//! The admin port over a real socket: whole responses, byte for byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::admin::{self, AdminState};
use tollgate::metrics::Metrics;

/// Starts an admin port on a free port.
async fn start() -> (SocketAddr, Arc<AdminState>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    let state = Arc::new(AdminState::new(Arc::new(Metrics::new(1))));
    tokio::spawn(admin::serve(listener, Arc::clone(&state)));
    (address, state)
}

/// Sends bytes and reads to the end of the connection; the date is left out.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .await
        .expect("an answer");
    let lines = response.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

async fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await
}

fn plain(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         cache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn readiness_follows_the_gateway_and_liveness_does_not() {
    let (address, state) = start().await;
    assert_eq!(
        get(address, "/readyz").await,
        plain("503 Service Unavailable", "not ready\n")
    );
    assert_eq!(get(address, "/livez").await, plain("200 OK", "ok\n"));
    state.is_ready.store(true, Relaxed);
    assert_eq!(get(address, "/readyz").await, plain("200 OK", "ok\n"));
    state.is_ready.store(false, Relaxed);
    assert_eq!(
        get(address, "/readyz?x").await,
        plain("503 Service Unavailable", "not ready\n")
    );
}

#[tokio::test]
async fn metrics_are_what_the_process_counted() {
    let (address, state) = start().await;
    state.metrics.panicked(state.metrics.control());
    let body = state.metrics.render();
    assert!(body.contains("\ntollgate_panics_total 1\n"));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/openmetrics-text; version=1.0.0; \
         charset=utf-8\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    assert_eq!(get(address, "/metrics").await, head.clone() + &body);
    assert_eq!(
        exchange(address, "HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await,
        head
    );
}

#[tokio::test]
async fn anything_else_is_refused_without_reflecting_it() {
    let (address, _state) = start().await;
    for path in ["/x", "/livez/", "/%6civez", "//livez"] {
        assert_eq!(
            get(address, path).await,
            plain("404 Not Found", "Not Found\n"),
            "{path}"
        );
    }
    let post = "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(
        exchange(address, post).await,
        "HTTP/1.1 405 Method Not Allowed\r\ncontent-type: text/plain; charset=utf-8\r\n\
         cache-control: no-store\r\nallow: GET, HEAD\r\nconnection: close\r\n\
         content-length: 19\r\n\r\nMethod Not Allowed\n"
    );
}
