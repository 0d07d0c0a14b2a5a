//! Carries the bytes of another protocol between a client and an origin, once both have agreed on it
//! (101).
//!
//! Over HTTP/1.1, the client's connection becomes a [`pipe`] in each direction; over HTTP/2, it is a
//! [`stream`]'s data. Bytes pass untouched. Over HTTP/1.1, either side may close its direction alone. A tunnel ends
//! when no byte has passed for the listener's `tunnel_timeout`, and when the gateway has waited long
//! enough for its tunnels to end.

mod pipe;
mod stream;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::response::Parts;

use self::pipe::{BrokenPipe, Pipe};
pub(super) use self::stream::{BrokenTunnel, TunnelBody};
use super::body::ResponseBody;
use super::client::Client;
use super::content::Content;
use super::downstream::body::RequestBody;
use super::exchange::Exchange;
use super::journey_state::Journey;
use super::refusal::Refusal;
use super::upstream::Switched;
use super::worker::Worker;
use crate::fault::Reason;
use crate::request::upgrade;
use crate::snapshot::{Route, UpstreamKind};

impl Journey<'_> {
    /// Forgets that the client asks for another protocol, if the route does not allow that one. Over HTTP/2,
    /// the request is then refused, because it can mean nothing else.
    pub(super) fn check_upgrade(&mut self, route: &Route) -> Result<(), Refusal> {
        let upstream = &self.live.snapshot.upstreams[route.upstream];
        let is_http = matches!(upstream.kind, UpstreamKind::Http(_));
        let is_allowed = |protocol: &HeaderValue| {
            let mut allowed = route.upgrades.iter();
            is_http && allowed.any(|name| upgrade::is_allowed(protocol.as_bytes(), name))
        };
        let is_tunnel = self.is_tunnel();
        self.upgrade = self.upgrade.take().filter(is_allowed);
        if is_tunnel && self.upgrade.is_none() {
            return Err(Refusal::method_unsupported());
        }
        if let (Some(_), Some(body)) = (&self.upgrade, self.body.as_mut()) {
            body.bound(u64::MAX);
        }
        Ok(())
    }

    /// Whether only a tunnel can answer the request, which asks for another protocol over HTTP/2.
    pub(super) fn is_tunnel(&self) -> bool {
        self.upgrade.is_some() && self.exchange.request().is_http2()
    }
}

/// Opens a tunnel after the head of a 101. Over HTTP/2, `body` is what the client sends through it.
pub(super) fn open(
    origin: Switched,
    mut head: Parts,
    protocol: Option<HeaderValue>,
    body: Option<RequestBody>,
    client: &Rc<Client>,
    mut exchange: Box<Exchange>,
) -> Response<ResponseBody> {
    exchange.decided.release_held();
    let worker = Rc::clone(&client.worker);
    let timeout = worker.live().snapshot.listeners[client.listener].tunnel_timeout;
    let request = exchange.request().clone();
    let body = match body {
        Some(body) if request.is_http2() => {
            request.answer();
            let tunnel = TunnelBody::new(origin, body, worker, timeout);
            ResponseBody::new(Content::Tunnel(Box::new(tunnel)), exchange)
        }
        _ => {
            let upgrade = HeaderValue::from_static("upgrade");
            head.headers.insert(CONNECTION, upgrade);
            if let Some(protocol) = protocol {
                head.headers.insert(UPGRADE, protocol);
            }
            request.leave_tunnel(Box::new(move |client| {
                Box::pin(carry(client, origin, worker, timeout, exchange))
            }));
            ResponseBody::switched()
        }
    };
    Response::from_parts(head, body)
}

/// A tunnel over HTTP/1.1; what it has carried is recorded when it is dropped.
struct Tunnel {
    up: Pipe,
    down: Pipe,
    exchange: Box<Exchange>,
    /// How the tunnel ended; none if it was cut.
    ended: Option<Result<(), Reason>>,
}

/// Carries bytes until both sides have closed; the exchange ends with the tunnel.
async fn carry(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut origin: Switched,
    worker: Rc<Worker>,
    timeout: Duration,
    exchange: Box<Exchange>,
) {
    let mut tunnel = Tunnel {
        up: Pipe::default(),
        down: Pipe::default(),
        exchange,
        ended: None,
    };
    let idle = worker.sweep.deadline();
    idle.arm(timeout);
    let mut end = pin!(worker.tunnels_end());
    let mut is_ending = false;
    let ended = poll_fn(|cx| {
        let Tunnel { up, down, .. } = &mut tunnel;
        if !is_ending && end.as_mut().poll(cx).is_ready() {
            is_ending = true;
            up.close();
            down.close();
        }
        let before = up.bytes + down.bytes;
        let sent = up.poll(Pin::new(&mut client), Pin::new(&mut origin), cx);
        let received = down.poll(Pin::new(&mut origin), Pin::new(&mut client), cx);
        if up.bytes + down.bytes > before {
            idle.arm(timeout);
        }
        idle.register(cx);
        match (sent, received) {
            (Poll::Ready(Err(BrokenPipe::Reader)), _)
            | (_, Poll::Ready(Err(BrokenPipe::Writer))) => Poll::Ready(Err(Reason::ClientGone)),
            (Poll::Ready(Err(BrokenPipe::Writer)), _)
            | (_, Poll::Ready(Err(BrokenPipe::Reader))) => {
                Poll::Ready(Err(Reason::ResponseAborted))
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(Ok(())),
            _ if idle.is_over() => Poll::Ready(Err(Reason::TunnelTimeout)),
            _ => Poll::Pending,
        }
    });
    tunnel.ended = Some(ended.await);
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if let Some(reading) = &mut self.exchange.reading {
            reading.carried(self.down.bytes);
        }
        self.exchange.request().body_received(self.up.bytes);
        let record = &mut self.exchange.record;
        record.carried(self.down.bytes);
        match self.ended {
            Some(Ok(())) => {}
            Some(Err(reason)) => record.broke_off(reason),
            None => record.left_unsent(),
        }
    }
}
