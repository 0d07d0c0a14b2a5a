//! One client connection: hyper over a [`ClientIo`], one journey per request.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use http::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::client_io::{Awaited, ClientIo, ClientSocket};
use super::listener::{Accepted, Place};
use super::registry::Registration;
use super::strict::Strict;
use crate::fault::Reason;
use crate::proxy::forwarded::Remembered;
use crate::proxy::worker::{Draining, Worker};
use crate::proxy::{journey, record};
use crate::request::LatestPartition;

/// What a request's journey knows of its connection.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) socket: Arc<ClientSocket>,
    pub(crate) peer: SocketAddr,
    pub(crate) place: Place,
    /// What the latest request's origin was told of its client.
    pub(crate) forwarded: RefCell<Remembered>,
    /// Whose quota the latest request spent.
    pub(crate) partition_id: RefCell<LatestPartition>,
}

/// Counts a panic that ends its connection; the worker goes on.
struct PanicGuard(Rc<Connection>);

/// Serves a connection until either side ends it.
pub(crate) async fn serve(worker: Rc<Worker>, accepted: Accepted, registration: Registration) {
    let Accepted {
        stream,
        peer,
        place,
    } = accepted;
    // A listener on [::] sees IPv4 peers as IPv6 addresses.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let live = worker.live();
    let listener = &live.snapshot.listeners[place.listener];
    let stream = match prepare(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "an accepted connection cannot be used");
            return;
        }
    };
    let io = ClientIo::new(stream, listener, &worker.sweep);
    let connection = Rc::new(Connection {
        socket: io.socket(),
        worker: Rc::clone(&worker),
        peer,
        place,
        forwarded: RefCell::default(),
        partition_id: RefCell::default(),
    });
    let _guard = PanicGuard(Rc::clone(&connection));
    let service = service_fn(|request| journey::run(Rc::clone(&connection), request));
    let mut serving = pin!(
        http1::Builder::new()
            .header_read_timeout(None)
            .half_close(false)
            .max_header_size(listener.max_header_bytes)
            .max_buf_size(listener.max_header_bytes.max(BUFFER_BYTES_MIN))
            .serve_connection(TokioIo::new(Strict::new(io)), service)
    );
    // The connection can outlive the configuration by far.
    drop(live);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let socket = Arc::clone(&connection.socket);
    registration.runs(waker, socket, connection.place.listener);
    let ends = || match worker.draining() {
        Draining::No => false,
        Draining::Begun => connection.socket.awaited() != Awaited::FirstByte,
        Draining::New => true,
    };
    let mut is_closing = false;
    let end = poll_fn(|cx| {
        loop {
            if !is_closing && ends() {
                is_closing = true;
                serving.as_mut().graceful_shutdown();
            }
            let polled = serving.as_mut().poll(cx);
            // Its first byte may just have come.
            if polled.is_ready() || is_closing || !ends() {
                return polled;
            }
        }
    })
    .await;
    if let Err(error) = end {
        record_end(&connection, &error);
    }
    connection.socket.say_goodbye().await;
    drop(registration);
}

/// hyper's read and write buffer holds at least this much.
const BUFFER_BYTES_MIN: usize = 64 * 1024;

fn prepare(stream: std::net::TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    TcpStream::from_std(stream)
}

/// Records a connection that ended before a request could begin its journey; what ended one that
/// had begun is in its own record.
fn record_end(connection: &Connection, error: &hyper::Error) {
    let is_overdue = connection.socket.is_overdue();
    let (reason, status) = match connection.socket.awaited() {
        Awaited::Head if is_overdue => (Reason::HeadTimeout, Some(StatusCode::REQUEST_TIMEOUT)),
        _ if error.is_parse_too_large() => (Reason::HeadTooLarge, Some(status_of_length(error))),
        // Its sender would not understand an answer of HTTP/1.1, and gets none.
        _ if error.is_parse_version_h2() => (Reason::Syntax, None),
        _ if error.is_parse() => (Reason::Syntax, Some(StatusCode::BAD_REQUEST)),
        Awaited::Head if error.is_incomplete_message() => (Reason::HeadIncomplete, None),
        _ => return,
    };
    record::refused_head(connection, reason, status);
}

/// Says how hyper answered a head that is too large: it tells a target's length from a head's
/// only in words.
fn status_of_length(error: &hyper::Error) -> StatusCode {
    match error.to_string().as_str() {
        "URI too long" => StatusCode::URI_TOO_LONG,
        _ => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let worker = &self.0.worker;
            worker.shared.metrics.panicked(worker.index);
            tracing::error!(peer = %self.0.peer.ip(), "a panic ended a connection");
        }
    }
}
