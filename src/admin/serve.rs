//! Connections of the admin port: how many there may be, which one is closed to make room, and how long each may take.
//!
//! A connection waits for a request, which may arrive slowly until room is needed or [`WAITING_MAX`] is over; then its
//! request is answered; then its client takes the answer. When there are as many connections as allowed, the one that
//! has waited longest is closed, never one whose request is being answered. If none waits, the one that has been taking
//! its answer longest is closed, so that nobody can keep health checks out by not reading. Event streams have a bound
//! of their own, and are never closed to make room.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::api;
use super::body::AnswerBody;
use super::caller::Access;
use super::dispatch;
use super::reply::{AdminReply, ReplyBody};
use super::state::AdminState;
use super::table::AdminCall;
use crate::proxy::wire::accepting::Accepting;
use crate::store::Session;

/// Stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The connection has sent no whole request.
    Waiting,
    /// The request is being answered.
    Answering,
    /// The client has not taken all of the answer.
    Taking,
    /// The client reads an event stream.
    Streaming,
}

/// State of a connection, which its task shares with the port.
struct PortConnection {
    stage: Cell<Stage>,
    /// When the stage last changed: the port's count of changes at that time.
    changed_at: Cell<u64>,
    changed: Notify,
    port: Rc<Port>,
}

/// The port, with all its connections.
struct Port {
    /// Whether the port accepts, pauses, has stopped, or belongs to another process.
    accepting: watch::Receiver<Accepting>,
    changes: Cell<u64>,
    /// Notified when a connection begins to wait, or has ended.
    freed: Notify,
    open: RefCell<Vec<(Rc<PortConnection>, AbortHandle)>>,
}

/// Serves the admin port, on a thread whose tasks stay there, until it is told to stop and the answers under way have
/// been taken.
pub async fn serve(
    listener: TcpListener,
    state: Arc<AdminState>,
    session: Session,
    mut accepting: watch::Receiver<Accepting>,
) {
    let mut failures = 0_u32;
    let port = Rc::new(Port::new(accepting.clone()));
    let mut sampling = JoinSet::new();
    sampling.spawn_local(api::sample(Arc::clone(&state)));
    let mut listener = Some(listener);
    loop {
        let now = *accepting.borrow_and_update();
        if now == Accepting::PassedOn {
            listener = None;
            port.wake();
        }
        let accepted = match &listener {
            _ if now == Accepting::Stopped => break,
            Some(listener) if now == Accepting::Yes => tokio::select! {
                biased;
                changed = accepting.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                accepted = listener.accept() => accepted,
            },
            _ => match accepting.changed().await {
                Ok(()) => continue,
                Err(_) => break,
            },
        };
        match accepted {
            Ok((stream, peer)) => {
                port.make_room().await;
                port.begin(stream, peer, Arc::clone(&state), session.clone());
            }
            // Probably out of descriptors: trying again at once would only burn the core.
            Err(error) => {
                if failures.is_multiple_of(FAILURES_PER_WARNING) {
                    tracing::warn!(%error, "the admin port cannot accept a connection");
                }
                failures = failures.wrapping_add(1);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    while port.is_answering() {
        port.freed.notified().await;
    }
}

impl Port {
    fn new(accepting: watch::Receiver<Accepting>) -> Self {
        Self {
            accepting,
            changes: Cell::default(),
            freed: Notify::default(),
            open: RefCell::default(),
        }
    }

    /// Whether another process has taken over the port.
    fn is_passed_on(&self) -> bool {
        *self.accepting.borrow() == Accepting::PassedOn
    }

    /// Whether a change by this call would be lost, because another process has taken over, or is about to.
    fn is_lost(&self, call: &AdminCall) -> bool {
        let is_anothers = matches!(
            *self.accepting.borrow(),
            Accepting::Paused | Accepting::PassedOn
        );
        is_anothers && call.access == Access::ChangesState
    }

    /// Has each connection check whether it may go on.
    fn wake(&self) {
        for (connection, _) in &*self.open.borrow() {
            connection.changed.notify_one();
        }
    }

    /// Waits until there is room for one more connection, and closes another one if need be.
    async fn make_room(&self) {
        while self.is_full() {
            if self.close_longest(Stage::Waiting) {
                continue;
            }
            let freed = tokio::time::timeout(TAKING_MIN, self.freed.notified()).await;
            if freed.is_err() {
                self.close_longest(Stage::Taking);
            }
        }
    }

    fn streams(&self) -> usize {
        let open = self.open.borrow();
        let streaming = |(one, task): &&(Rc<PortConnection>, AbortHandle)| {
            one.stage.get() == Stage::Streaming && !task.is_finished()
        };
        open.iter().filter(streaming).count()
    }

    /// Whether an answer is under way, event streams aside.
    fn is_answering(&self) -> bool {
        let open = self.open.borrow();
        open.iter().any(|(one, task)| {
            let is_under_way = matches!(one.stage.get(), Stage::Answering | Stage::Taking);
            is_under_way && !task.is_finished()
        })
    }

    fn is_full(&self) -> bool {
        let mut open = self.open.borrow_mut();
        open.retain(|(_, task)| !task.is_finished());
        open.len() >= CONNECTIONS_MAX
    }

    /// Closes the connection that has been in this stage longest; returns whether there was one.
    fn close_longest(&self, stage: Stage) -> bool {
        let mut open = self.open.borrow_mut();
        let there = open
            .iter()
            .enumerate()
            .filter(|(_, (one, _))| one.stage.get() == stage);
        let longest = there.min_by_key(|(_, (one, _))| one.changed_at.get());
        let Some((index, _)) = longest else {
            return false;
        };
        let (_, task) = open.swap_remove(index);
        task.abort();
        true
    }

    fn begin(
        self: &Rc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        state: Arc<AdminState>,
        session: Session,
    ) {
        let connection = Rc::new(PortConnection {
            stage: Cell::new(Stage::Waiting),
            changed_at: Cell::new(self.count()),
            changed: Notify::new(),
            port: Rc::clone(self),
        });
        let serving = converse(Rc::clone(&connection), stream, peer, state, session);
        let task = tokio::task::spawn_local(serving);
        let mut open = self.open.borrow_mut();
        open.push((connection, task.abort_handle()));
    }

    fn count(&self) -> u64 {
        self.changes.set(self.changes.get() + 1);
        self.changes.get()
    }
}

impl PortConnection {
    fn enter(&self, stage: Stage) {
        self.stage.set(stage);
        self.changed_at.set(self.port.count());
        self.changed.notify_one();
        if stage == Stage::Waiting {
            self.port.freed.notify_one();
        }
    }

    /// Returns when the connection has been in a stage for longer than it may.
    async fn overdue(&self) {
        loop {
            let timeout = match self.stage.get() {
                // The process that has taken over is to answer the client's next request, and to serve its stream.
                Stage::Waiting | Stage::Streaming if self.port.is_passed_on() => return,
                Stage::Waiting => WAITING_MAX,
                // Answers have deadlines of their own.
                Stage::Answering => Duration::MAX,
                // For a stream, this is the time for the next piece.
                Stage::Taking | Stage::Streaming => TAKING_MAX,
            };
            let changed = tokio::time::timeout(timeout, self.changed.notified()).await;
            if changed.is_err() {
                return;
            }
        }
    }

    /// Answers one request.
    async fn answer(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
        state: Arc<AdminState>,
        session: Session,
    ) -> Response<AnswerBody> {
        let process = Arc::clone(&state.process);
        let received = dispatch::receive(request, peer, state, session).await;
        // A stream ends when the token changes, because its client may no longer read it.
        let token = process.live().snapshot.admin.token.clone();
        let mut reply = match received {
            Ok((call, _)) if self.port.is_lost(call) => AdminReply::problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "Another process is taking over, and would miss this change: try again.",
            )
            .closing(),
            Ok((call, request)) => {
                self.enter(Stage::Answering);
                (call.answer)(&request).await
            }
            Err(refused) => refused,
        };
        if let ReplyBody::Stream(events) = reply.body {
            let is_allowed = move || process.live().snapshot.admin.token == token;
            let events = events.take_while(move |_| ready(is_allowed()));
            reply.body = ReplyBody::Stream(events.boxed());
        }
        self.taken_by_client(reply)
    }

    /// Makes a response of a reply; the connection does not count as waiting until the client has taken it.
    fn taken_by_client(self: Rc<Self>, reply: AdminReply) -> Response<AnswerBody> {
        let AdminReply {
            status,
            fields,
            body,
        } = match reply.body {
            ReplyBody::Stream(_) if self.port.streams() >= STREAMS_MAX => too_many_streams(),
            _ => reply,
        };
        let (rest, more) = match body {
            ReplyBody::Stream(events) => {
                self.enter(Stage::Streaming);
                let reader = Rc::clone(&self);
                let events = events.inspect(move |_| reader.enter(Stage::Streaming));
                (Bytes::new(), Some(events.boxed_local()))
            }
            ReplyBody::Whole(rest) => {
                self.enter(Stage::Taking);
                (rest, None)
            }
        };
        let when_taken = Box::new(move || self.enter(Stage::Waiting));
        let mut response = Response::new(AnswerBody::new(rest, more, when_taken));
        *response.status_mut() = status;
        response.headers_mut().extend(fields);
        response
    }
}

fn too_many_streams() -> AdminReply {
    let detail = format!("{STREAMS_MAX} event streams are open, and there may be no more.");
    AdminReply::problem(StatusCode::SERVICE_UNAVAILABLE, detail)
}

/// Answers the requests of a connection, one after the other.
async fn converse(
    connection: Rc<PortConnection>,
    stream: TcpStream,
    peer: SocketAddr,
    state: Arc<AdminState>,
    session: Session,
) {
    let service = service_fn(|request| {
        let (connection, state) = (Rc::clone(&connection), Arc::clone(&state));
        let answering = connection.answer(request, peer, state, session.clone());
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let serving = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        // The deadline of the stage `Waiting` covers the head as well.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        served = serving.without_shutdown() => {
            // A client that breaks off is no error of the gateway.
            if let Ok(parts) = served {
                lingering_close(parts.io.into_inner()).await;
            }
        }
        () = connection.overdue() => {}
    }
    connection.port.freed.notify_one();
}

/// Closes a connection once its client has stopped sending. Otherwise a client that is refused in the middle of its
/// request would get a reset, and lose the answer.
async fn lingering_close(mut stream: TcpStream) {
    let until_closed = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(LINGERING_MAX, until_closed).await;
}

/// Most connections at once; for one more, another is closed.
pub(crate) const CONNECTIONS_MAX: usize = 64;

/// Most event streams at once.
const STREAMS_MAX: usize = 16;

/// How long a connection may wait for its next request to be complete.
const WAITING_MAX: Duration = Duration::from_secs(75);

/// How long a client may take to read an answer, or the next piece of a stream.
const TAKING_MAX: Duration = Duration::from_secs(30);

/// How long a new connection waits for room before one whose client is taking an answer is closed.
const TAKING_MIN: Duration = Duration::from_secs(1);

/// How long a client may go on sending after its last answer.
const LINGERING_MAX: Duration = Duration::from_secs(2);

/// Most bytes of a request's head; hyper allows no smaller maximum.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// How long the port pauses after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// One of this many failed accepts is logged: at most one a second, with the pauses between them.
const FAILURES_PER_WARNING: u32 = 10;
