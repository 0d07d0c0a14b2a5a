//! An origin that speaks HTTP/2 and answers each stream as the test tells it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::server::{self, Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::{join, select};
use tollgate::snapshot::{HttpUpstream, Scheme};

use crate::upstream::harness::{Gateway, Origin, get, read};
use crate::upstream::tls::origin::SecureOrigin;

/// An origin that speaks HTTP/2 in clear text.
pub struct Http2Origin {
    pub tcp: Origin,
    pub builder: Builder,
}

/// The origin's end of a connection.
pub struct Peer {
    streams: UnboundedReceiver<Stream>,
    /// Ends the connection when it is dropped.
    _end: UnboundedSender<()>,
    /// Requests that have arrived but were not taken yet.
    pub waiting: VecDeque<Stream>,
}

/// A request, and the handle by which it is answered.
pub struct Stream {
    pub request: Request<RecvStream>,
    pub respond: SendResponse<Bytes>,
}

impl Http2Origin {
    pub async fn new() -> Self {
        Self {
            tcp: Origin::new().await,
            builder: Builder::new(),
        }
    }

    /// Returns an origin, and a gateway that knows that the origin speaks HTTP/2.
    pub async fn with_gateway() -> (Self, Gateway) {
        let origin = Self::new().await;
        let gateway = origin.gateway();
        (origin, gateway)
    }

    /// Accepts a connection, and takes its first request.
    pub async fn next(&self) -> (Peer, Stream) {
        let mut peer = self.accept().await;
        let stream = peer.next().await;
        (peer, stream)
    }

    pub async fn accept(&self) -> Peer {
        Peer::begin(self.tcp.accept().await.0, &self.builder).await
    }

    /// Accepts a connection, and answers its first request with `ok`.
    pub async fn answer(&self) -> (Request<RecvStream>, Peer) {
        let mut peer = self.accept().await;
        (peer.answer().await, peer)
    }

    /// Returns a gateway that knows that the origin speaks HTTP/2.
    pub fn gateway(&self) -> Gateway {
        self.gateway_with(|_| ())
    }

    pub fn gateway_with(&self, change: impl FnOnce(&mut HttpUpstream)) -> Gateway {
        gateway(&[self.tcp.address], change)
    }
}

/// Returns a gateway whose origins speak HTTP/2 in clear text.
pub fn gateway(addresses: &[SocketAddr], change: impl FnOnce(&mut HttpUpstream)) -> Gateway {
    Gateway::with(addresses, |http| {
        for endpoint in &mut http.endpoints {
            endpoint.scheme = Scheme::H2c;
        }
        change(http);
    })
}

impl Peer {
    /// Accepts a connection over TLS.
    pub async fn accept(origin: &SecureOrigin) -> Self {
        Self::begin(origin.accept().await.0, &Builder::new()).await
    }

    /// Speaks HTTP/2 until the other end closes, or this is dropped.
    pub async fn begin<T>(transport: T, builder: &Builder) -> Self
    where
        T: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let begun = builder.handshake::<_, Bytes>(transport).await;
        let mut connection: server::Connection<T, Bytes> = begun.expect("a preface");
        let (tell, streams) = unbounded_channel();
        let (end, mut ended) = unbounded_channel::<()>();
        tokio::task::spawn_local(async move {
            loop {
                select! {
                    accepted = connection.accept() => match accepted {
                        Some(Ok((request, respond))) => {
                            let stream = Stream { request, respond };
                            // The test may be over and take no more requests.
                            let _ = tell.send(stream);
                        }
                        Some(Err(_)) | None => return,
                    },
                    _ = ended.recv() => return,
                }
            }
        });
        Self {
            streams,
            _end: end,
            waiting: VecDeque::new(),
        }
    }

    /// Takes the next request.
    pub async fn next(&mut self) -> Stream {
        match self.waiting.pop_front() {
            Some(stream) => stream,
            None => self.streams.recv().await.expect("another request"),
        }
    }

    /// Waits until `count` requests have arrived and are waiting.
    pub async fn gather(&mut self, count: usize) {
        while self.waiting.len() < count {
            let stream = self.streams.recv().await.expect("another request");
            self.waiting.push_back(stream);
        }
    }

    /// Waits until the other end has closed the connection.
    pub async fn closed(&mut self) {
        assert!(self.streams.recv().await.is_none(), "another request");
    }

    /// Sends a request through the gateway and has it answered on this connection.
    pub async fn answers(&mut self, gateway: &Gateway, target: &str) {
        let (answer, _) = join!(gateway.send(get(target)), self.answer());
        assert_eq!(read(answer).await, "ok");
    }

    /// Takes the next request, and answers it with `ok`.
    pub async fn answer(&mut self) -> Request<RecvStream> {
        let stream = self.next().await;
        stream.ok()
    }
}

impl Stream {
    /// Sends the head of an answer with a body.
    pub fn begin(&mut self, response: Response<()>) -> SendStream<Bytes> {
        let sent = self.respond.send_response(response, false);
        sent.expect("an open stream")
    }

    /// Answers the request with `ok`.
    pub fn ok(mut self) -> Request<RecvStream> {
        self.body(&["ok"]);
        self.request
    }

    /// Answers the request with a body of these pieces.
    pub fn body(&mut self, pieces: &[&'static str]) {
        let mut body = self.begin(Response::new(()));
        for piece in pieces {
            body.send_data(Bytes::from_static(piece.as_bytes()), false)
                .expect("an open stream");
        }
        body.send_data(Bytes::new(), true).expect("an open stream");
    }

    /// Reads the request's body to its end.
    pub async fn read(&mut self) -> (Vec<u8>, Option<HeaderMap>) {
        let mut bytes = Vec::new();
        let body = self.request.body_mut();
        while let Some(data) = body.data().await {
            let data = data.expect("more of the body");
            body.flow_control()
                .release_capacity(data.len())
                .expect("what came");
            bytes.extend_from_slice(&data);
        }
        (bytes, body.trailers().await.expect("a whole body"))
    }
}
