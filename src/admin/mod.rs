//! The private port: health for load balancers, metrics for Prometheus.
//!
//! It is an HTTP/1.1 server of its own on the control runtime, never on a worker, so it answers
//! while workers are busy, and its readers cannot slow them. No header earns trust: those that are read
//! ([`caller`]) only tell whom to refuse, which is what comes through a gateway, or from a browser on
//! behalf of another site. Each connection carries
//! one request and has one deadline. When there are too many, the oldest is closed, so nobody can
//! keep health checks out by holding connections.

mod caller;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use crate::metrics::{Exposition, Metrics};
use crate::request::cdn_loop;

/// What the admin port shows.
#[derive(Debug)]
pub struct AdminState {
    /// Whether the gateway wants traffic: set once it listens, cleared when it drains.
    pub is_ready: AtomicBool,
    /// What `/metrics` renders.
    pub metrics: Arc<Metrics>,
    /// Held while metrics are rendered.
    rendering: Mutex<()>,
}

/// Serves the admin port until the task is dropped.
pub async fn serve(listener: TcpListener, state: Arc<AdminState>) {
    let mut failures = 0_u32;
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(CONNECTIONS_MAX);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let conversation = converse(stream, Arc::clone(&state));
                // Too slow or broken off: either way the client has gone.
                let task = tokio::spawn(tokio::time::timeout(CONNECTION_TIMEOUT, conversation));
                open.push_back(task.abort_handle());
            }
            // Out of descriptors, most likely: trying again at once would only burn the core.
            Err(error) => {
                if failures.is_multiple_of(FAILURES_PER_WARNING) {
                    tracing::warn!(%error, "the admin port cannot accept a connection");
                }
                failures = failures.wrapping_add(1);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the one request of a connection.
async fn converse(stream: TcpStream, state: Arc<AdminState>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.answer(request).await) }
    });
    // If a client breaks off, that is nobody's error here.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX)
        // The connection's deadline covers the head as well.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl AdminState {
    /// Makes the state of a gateway that is not ready yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            is_ready: AtomicBool::new(false),
            metrics,
            rendering: Mutex::default(),
        }
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>> {
        if cdn_loop::passes(request.headers()) > 0 {
            // A gateway that has this port as an upstream would show it to every client.
            return text(StatusCode::LOOP_DETECTED, "Loop Detected\n");
        }
        if !caller::names_this_machine(&request) {
            return text(StatusCode::FORBIDDEN, UNKNOWN_HOST);
        }
        if caller::is_of_another_site(request.headers()) {
            return text(StatusCode::FORBIDDEN, CROSS_SITE);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
            let allow = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allow);
            return response;
        }
        match request.uri().path() {
            "/" => text(StatusCode::OK, INDEX),
            "/livez" => text(StatusCode::OK, "ok\n"),
            "/readyz" if self.is_ready.load(Relaxed) => self.ready(),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            "/metrics" => {
                self.scrape(Exposition::accepted_by(request.headers()))
                    .await
            }
            _ => text(StatusCode::NOT_FOUND, "Not Found\n"),
        }
    }

    /// Says that the gateway is ready, and what is amiss nevertheless.
    fn ready(&self) -> Response<Full<Bytes>> {
        let redis = self.metrics.store_usage().redis;
        let servers = redis.iter().flat_map(|redis| &redis.servers);
        let mut body = String::from("ok\n");
        for server in servers.filter(|server| server.is_far) {
            let name = &server.name;
            let _ = writeln!(
                body,
                "[store] timeout is below two round trips to {name}: raise it, or move Redis closer"
            );
        }
        text(StatusCode::OK, body)
    }

    /// Renders the metrics on another thread, because the time it takes grows with the file's
    /// routes, and the acceptors live on this one. One scrape is rendered at a time, whoever asks.
    async fn scrape(&self, exposition: Exposition) -> Response<Full<Bytes>> {
        let turn = self.rendering.lock().await;
        let metrics = Arc::clone(&self.metrics);
        let rendered = tokio::task::spawn_blocking(move || metrics.render(exposition)).await;
        drop(turn);
        match rendered {
            Ok(text) => respond(StatusCode::OK, exposition.content_type(), Bytes::from(text)),
            Err(error) => {
                tracing::error!(%error, "the metrics cannot be rendered");
                text(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error\n")
            }
        }
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", body.into())
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const INDEX: &str = "\
Tollgate's admin port

/livez    the process runs
/readyz   it wants traffic
/metrics  Prometheus' metrics, as text or OpenMetrics
";

const UNKNOWN_HOST: &str = "Forbidden: Host must be an IP address or localhost\n";
const CROSS_SITE: &str = "Forbidden: the request comes from another site\n";

/// Most connections at once; one more closes the oldest.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// From the accept to the last byte of the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of a request's head; hyper takes no less.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long the port rests after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One of this many failed accepts is logged: at most one a second, with the pauses between them.
const FAILURES_PER_WARNING: u32 = 10;
