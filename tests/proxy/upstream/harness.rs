//! A worker's upstream side, between a test and an origin whose every byte the test writes.

use std::cell::RefCell;
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::metrics::{Exposition, Metrics};
use tollgate::proxy::upstream::{
    self, Attempts, Endpoints, ForwardError, ForwardOptions, HostField, Pools, UpstreamAnswer,
    UpstreamBody, UpstreamFailure, UpstreamMeter, UpstreamState,
};
use tollgate::proxy::wire::body::UploadBody;
use tollgate::proxy::wire::deadline::Sweep;
use tollgate::proxy::wire::outgoing::Outgoing;
use tollgate::proxy::wire::sockets::Sockets;
use tollgate::snapshot::{Endpoint, HttpUpstream, Scheme, Upstream, UpstreamKind};

use crate::support::PATIENCE;

pub type BoxError = Box<dyn Error + Send + Sync>;
pub type TestBody = UnsyncBoxBody<Bytes, BoxError>;
pub type Answer = Result<Response<UpstreamBody>, ForwardError>;

/// Runs a test the way a worker runs: on one thread, with local tasks.
pub fn worker<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .expect("a runtime")
        .block_on(async { tokio::time::timeout(3 * PATIENCE, test).await })
        .expect("a test that ends")
}

/// The upstream side of a worker, with a clock that the test moves.
pub struct Gateway {
    pub pools: Pools,
    pub upstream: Arc<Upstream>,
    pub terms: ForwardOptions,
    pub metrics: Arc<Metrics>,
    pub endpoints: Arc<Endpoints>,
    /// Attempts of the latest request.
    pub attempts: RefCell<Rc<Attempts>>,
    sweep: Rc<Sweep>,
    clock: Clock,
}

impl Gateway {
    pub fn new(origins: &[&Origin]) -> Self {
        let addresses: Vec<_> = origins.iter().map(|origin| origin.address).collect();
        Self::with(&addresses, |_| ())
    }

    pub fn with(addresses: &[SocketAddr], change: impl FnOnce(&mut HttpUpstream)) -> Self {
        let start = Timestamp(1_000_000);
        let clock = Clock::manual(start);
        let sweep = Rc::new(Sweep::new(clock.clone()));
        let metrics = Arc::new(Metrics::new(1));
        Self {
            pools: Pools::new(
                Rc::clone(&sweep),
                clock.clone(),
                metrics.worker(0),
                Arc::new(Sockets::new(usize::MAX)),
            ),
            endpoints: Arc::new(Endpoints::new(clock.clone(), Arc::clone(&metrics))),
            upstream: upstream(addresses, change),
            terms: ForwardOptions {
                response_timeout: Duration::from_secs(30),
                body_timeout: Some(Duration::from_mins(1)),
                host: HostField::Client,
                is_upgrade: false,
                hash: None,
            },
            metrics,
            attempts: RefCell::default(),
            sweep,
            clock,
        }
    }

    /// Puts the upstream into force, if it is not yet.
    pub fn adopt(&self) -> Arc<UpstreamState> {
        let mut states = self.endpoints.adopt(&[Arc::clone(&self.upstream)]);
        states.pop().flatten().expect("tests have origins")
    }

    /// Moves the clock on, and sweeps.
    pub fn pass(&self, span: Duration) {
        self.clock.advance(Micros::from(span));
        self.sweep.sweep();
        self.pools.sweep(self.clock.now());
    }
}

impl Gateway {
    pub async fn send(&self, request: Request<impl UploadBody>) -> Answer {
        let sent = self.try_send(request).await;
        sent.map_err(|failure| failure.error)
    }

    /// Like [`send`](Self::send), but a failure says which endpoint failed, and why.
    pub async fn try_send(
        &self,
        request: Request<impl UploadBody>,
    ) -> Result<Response<UpstreamBody>, UpstreamFailure> {
        let state = &self.adopt();
        let attempts = Rc::<Attempts>::default();
        self.attempts.replace(Rc::clone(&attempts));
        let terms = &ForwardOptions {
            is_upgrade: request.headers().contains_key("upgrade"),
            ..self.terms
        };
        let meter = UpstreamMeter {
            metrics: &self.metrics.upstream(&self.upstream.name),
            worker: self.metrics.worker(0),
        };
        let request = &mut Outgoing::from(request);
        let sent = upstream::send(&self.pools, state, request, terms, meter, &attempts).await;
        sent.map(|answer| match answer {
            UpstreamAnswer::Body(response) => *response,
            UpstreamAnswer::Switched(_) => unreachable!("tests ask for no other protocol"),
        })
    }

    /// Returns why there is no answer to a request.
    pub async fn cause(&self, request: Request<impl UploadBody>) -> String {
        match self.try_send(request).await {
            Ok(answer) => panic!("an answer: {}", answer.status()),
            Err(failure) => failure.cause.into(),
        }
    }

    /// Whether a counter of the upstream has this value, for example `tls_failures{reason="expired"} 1`.
    pub fn counts(&self, series: &str) -> bool {
        let (name, value) = series.split_once(' ').expect("a value");
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let comma = if labels == "}" { "" } else { "," };
        let line =
            format!("tollgate_upstream_{name}_total{{upstream=\"api\"{comma}{labels} {value}\n");
        self.metrics.render(Exposition::OpenMetrics).contains(&line)
    }
}

pub fn upstream(addresses: &[SocketAddr], change: impl FnOnce(&mut HttpUpstream)) -> Arc<Upstream> {
    let endpoint = |address: &SocketAddr| Endpoint {
        scheme: Scheme::Http,
        authority: address.to_string().parse().expect("an authority"),
        host: address.ip().to_string().into(),
        port: address.port(),
        weight: 1,
    };
    let mut http = HttpUpstream {
        endpoints: addresses.iter().map(endpoint).collect(),
        tls: None,
        connect_timeout: Duration::from_secs(3),
        retries: 1,
        max_header_bytes: 32 << 10,
        max_idle: 256,
        idle_timeout: Duration::from_mins(1),
        retry_budget: 1.0,
        resolve_every: Duration::from_secs(30),
        ..HttpUpstream::default()
    };
    change(&mut http);
    Arc::new(Upstream {
        name: "api".into(),
        kind: UpstreamKind::Http(http),
    })
}

/// An origin that does exactly what the test says.
pub struct Origin {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Origin {
    pub async fn new() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a port"))
    }

    /// Returns an origin, and a gateway in front of it.
    pub async fn with_gateway() -> (Self, Gateway) {
        let origin = Self::new().await;
        let gateway = Gateway::new(&[&origin]);
        (origin, gateway)
    }

    pub fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        Self { listener, address }
    }

    pub async fn accept(&self) -> Wire {
        Wire(self.listener.accept().await.expect("a connection").0)
    }

    /// Accepts a connection, reads a request without a body and answers it.
    pub async fn answer(&self, answer: &str) -> Wire {
        let mut wire = self.accept().await;
        wire.answer(answer).await;
        wire
    }
}

/// One end of a connection, as raw bytes.
pub struct Wire<S = TcpStream>(pub S);

impl Wire {
    /// Ends the connection with a reset.
    pub fn reset(self) {
        let set = SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
        set.expect("a socket takes options");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Reads up to and including `end`.
    pub async fn read_to(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        while !text.ends_with(end.as_bytes()) {
            text.push(self.0.read_u8().await.expect("more bytes"));
        }
        String::from_utf8(text).expect("text")
    }

    /// Reads a head; `None` if the other end closes before it is complete.
    pub async fn try_head(&mut self) -> Option<String> {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(self.0.read_u8().await.ok()?);
        }
        String::from_utf8(text).ok()
    }

    pub async fn head(&mut self) -> String {
        self.read_to("\r\n\r\n").await
    }

    /// Reads everything until the other end closes.
    pub async fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).await.expect("text");
        text
    }

    pub async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("a reader");
    }

    pub async fn answer(&mut self, answer: &str) {
        self.head().await;
        self.say(answer).await;
    }
}

pub fn get(target: &str) -> Request<TestBody> {
    request("GET", target, body(Empty::new()))
}

pub fn request(method: &str, target: &str, body: TestBody) -> Request<TestBody> {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", "shop.example")
        .body(body)
        .expect("a request")
}

pub fn text(text: &'static str) -> TestBody {
    body(Full::from(text))
}

fn body<B>(body: B) -> TestBody
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Sends the frames of a body; when it is dropped, the body ends.
pub type Frames = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

/// Returns a body of unknown length.
pub fn stream() -> (Frames, TestBody) {
    let (frames, mut receiver) = mpsc::channel(1);
    let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    (frames, StreamBody::new(stream).boxed_unsync())
}

pub fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

/// Reads an answer to its end.
pub async fn read(answer: Answer) -> String {
    let collected = answer.expect("a response").into_body().collect().await;
    let bytes = collected.expect("a whole body").to_bytes();
    String::from_utf8(bytes.into()).expect("text")
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// An answer after which the connection closes.
pub const LAST: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
