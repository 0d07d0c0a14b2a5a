//! A client of the admin port: how commands ask the gateway that runs with the same file.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;

use super::event_stream::{AdminEvent, EventReader};
use super::{EXIT_CONFIG, unreadable};
use crate::config::{ConfigText, environment, load_admin};
use crate::snapshot::Admin;
use crate::store::Secret;

/// The admin port of the gateway that runs with a file.
#[derive(Debug)]
pub struct AdminClient {
    address: SocketAddr,
    token: Option<Secret>,
}

/// An answer of the admin port.
#[derive(Debug)]
pub struct AdminAnswer {
    /// Status, which says whether the call succeeded.
    pub status: StatusCode,
    /// Content of the answer.
    pub content: Value,
}

/// An event stream of the admin port.
#[derive(Debug)]
pub struct AdminEvents {
    address: SocketAddr,
    content: Incoming,
    reader: EventReader,
}

/// Why the gateway cannot be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// `[admin]` has mistakes; this is the report.
    #[error("{0}")]
    Mistakes(String),
    /// The admin port is off.
    #[error("`[admin] address` is \"off\"")]
    Off,
    /// Nothing listens at the address.
    #[error("no gateway listens at {address} ({source}): does one run with this file?")]
    Unreachable {
        /// Address of the admin port.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The gateway accepted the connection, but did not answer in time.
    #[error("the gateway at {0} did not answer in time")]
    Late(SocketAddr),
    /// What listens there is no admin port of a gateway.
    #[error("what listens at {0} does not answer like a gateway's admin port")]
    Foreign(SocketAddr),
    /// The gateway closed a stream.
    #[error("the gateway at {0} closed the connection")]
    Closed(SocketAddr),
    /// The gateway left events out of a stream.
    #[error("the gateway at {0} left out events that were not read in time")]
    Missed(SocketAddr),
    /// The gateway wants another token than the file's.
    #[error(
        "the gateway at {0} has another token than the file: if it has changed, reload with SIGHUP"
    )]
    Token(SocketAddr),
    /// The gateway runs with another file.
    #[error(
        "the gateway was started with `{running}`, and a reload reads that file: put this one there first, or compare \
         the two with `--against {running}`"
    )]
    OtherFile {
        /// Path of the gateway's file.
        running: String,
    },
    /// The gateway refused, for this reason.
    #[error("the gateway refused: {0}")]
    Refused(String),
}

impl ClientError {
    /// Prints the error to standard error, and returns the exit status.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Mistakes(report) => eprint!("{report}"),
            _ => eprintln!("tollgate: {self}"),
        }
        match self {
            Self::Unreadable(_) | Self::Mistakes(_) => ExitCode::from(EXIT_CONFIG),
            _ => ExitCode::FAILURE,
        }
    }

    /// Reports the error; if the port is off or refuses, also says which signal does the same.
    pub fn report_or(&self, signal: &str) -> ExitCode {
        let status = self.report();
        if matches!(self, Self::Off | Self::Refused(_)) {
            eprintln!("tollgate: {signal}");
        }
        status
    }
}

impl AdminClient {
    /// Finds the gateway that runs with the file at `path`.
    ///
    /// # Errors
    /// Why the gateway cannot be found.
    pub fn of(path: &Path) -> Result<Self, ClientError> {
        let unreadable = |error| ClientError::Unreadable(unreadable(path, &error));
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        let config = ConfigText::of(path, &text);
        let Admin { address, token } = load_admin(config, &environment).map_err(|report| {
            let name = path.display().to_string();
            ClientError::Mistakes(report.render(&name, &text, false))
        })?;
        let address = reachable(address.ok_or(ClientError::Off)?);
        Ok(Self { address, token })
    }

    /// Whether the file has a token.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Makes a call without content that changes something, at the gateway that runs with the file at `file`.
    ///
    /// # Errors
    /// Those of [`ask`](Self::ask), and a refusal if the file has no token.
    pub fn change(file: &Path, path: &str) -> Result<AdminAnswer, ClientError> {
        let client = Self::of(file)?;
        if !client.has_token() {
            return Err(ClientError::Refused(NO_TOKEN.to_owned()));
        }
        client.ask(Method::POST, path, None)
    }

    /// Asks for `path`, and waits for the answer.
    ///
    /// # Errors
    /// Why there is no answer, or why the gateway refuses this client.
    pub fn ask(
        &self,
        method: Method,
        path: &str,
        content: Option<&Value>,
    ) -> Result<AdminAnswer, ClientError> {
        let request = self.request(method, path, content);
        let request = request.ok_or(ClientError::Foreign(self.address))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|source| self.unreachable(source))?;
        let answer = runtime.block_on(self.exchange(request))?;
        self.judged(answer)
    }

    /// Asks for the event stream at `path`.
    ///
    /// # Errors
    /// Why there is no stream, or why the gateway refuses this client.
    pub async fn follow(&self, path: &str) -> Result<AdminEvents, ClientError> {
        let foreign = || ClientError::Foreign(self.address);
        let mut request = self.request(Method::GET, path, None).ok_or_else(foreign)?;
        let accepted = HeaderValue::from_static(EVENT_STREAM);
        request.headers_mut().insert(ACCEPT, accepted);
        let stream = self.connect().await?;
        let beginning = tokio::time::timeout(EVENT_TIMEOUT, begin(stream, request)).await;
        let begun = beginning.map_err(|_| ClientError::Late(self.address))?;
        let response = begun.ok_or_else(foreign)?;
        let kind = response.headers().get(CONTENT_TYPE);
        if response.status() == StatusCode::OK && kind.is_some_and(|kind| kind == EVENT_STREAM) {
            return Ok(AdminEvents {
                address: self.address,
                content: response.into_body(),
                reader: EventReader::default(),
            });
        }
        let collecting = tokio::time::timeout(EVENT_TIMEOUT, collected(response)).await;
        let answer = collecting.map_err(|_| ClientError::Late(self.address))?;
        let answer = self.judged(answer.ok_or_else(foreign)?)?;
        let detail = answer.content["detail"].as_str().ok_or_else(foreign)?;
        Err(ClientError::Refused(detail.to_owned()))
    }

    /// Returns an answer, unless it refuses this client.
    fn judged(&self, answer: AdminAnswer) -> Result<AdminAnswer, ClientError> {
        match answer.status {
            StatusCode::UNAUTHORIZED => Err(ClientError::Token(self.address)),
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                let detail = answer.content["detail"].as_str().unwrap_or_default();
                Err(ClientError::Refused(detail.to_owned()))
            }
            _ => Ok(answer),
        }
    }

    /// Reads the content of an answer.
    ///
    /// # Errors
    /// If no gateway would send such content.
    pub fn read<T: DeserializeOwned>(&self, content: Value) -> Result<T, ClientError> {
        read(self.address, content)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<AdminAnswer, ClientError> {
        let stream = self.connect().await?;
        let answering = tokio::time::timeout(ANSWER_TIMEOUT, answer(stream, request));
        let answer = answering
            .await
            .map_err(|_| ClientError::Late(self.address))?;
        answer.ok_or(ClientError::Foreign(self.address))
    }

    async fn connect(&self) -> Result<TcpStream, ClientError> {
        let timed_out = || io::Error::from(io::ErrorKind::TimedOut);
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(self.address));
        let connected = connecting.await.unwrap_or_else(|_| Err(timed_out()));
        connected.map_err(|source| self.unreachable(source))
    }

    /// Makes a request; returns `None` if the token cannot be sent in a field.
    fn request(
        &self,
        method: Method,
        path: &str,
        content: Option<&Value>,
    ) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.address.to_string())
            .header(ACCEPT, "application/json");
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.0)).ok()?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        if content.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let content = content.map(ToString::to_string).unwrap_or_default();
        request.body(content.into()).ok()
    }

    fn unreachable(&self, source: io::Error) -> ClientError {
        let address = self.address;
        ClientError::Unreachable { address, source }
    }
}

impl AdminEvents {
    /// Waits for the next event.
    ///
    /// # Errors
    /// Why there is no other event.
    pub async fn next(&mut self) -> Result<AdminEvent, ClientError> {
        let foreign = |_| ClientError::Foreign(self.address);
        loop {
            if let Some(event) = self.reader.next().map_err(foreign)? {
                return Ok(event);
            }
            let frame = tokio::time::timeout(EVENT_TIMEOUT, self.content.frame()).await;
            let frame = frame.map_err(|_| ClientError::Late(self.address))?;
            let closed = ClientError::Closed(self.address);
            let Some(Ok(frame)) = frame else {
                return Err(closed);
            };
            if let Ok(data) = frame.into_data() {
                self.reader.push(&data);
            }
        }
    }

    /// Returns the error of a stream that has left events out.
    pub fn missed(&self) -> ClientError {
        ClientError::Missed(self.address)
    }

    /// Reads the data of an event.
    ///
    /// # Errors
    /// If no gateway would send such data.
    pub fn read<T: DeserializeOwned>(&self, data: Value) -> Result<T, ClientError> {
        read(self.address, data)
    }
}

fn read<T: DeserializeOwned>(address: SocketAddr, content: Value) -> Result<T, ClientError> {
    serde_json::from_value(content).map_err(|_| ClientError::Foreign(address))
}

/// Sends a request, and returns the answer; `None` if no admin port would give that.
async fn answer(stream: TcpStream, request: Request<Full<Bytes>>) -> Option<AdminAnswer> {
    collected(begin(stream, request).await?).await
}

/// Sends a request, and returns the head of the answer.
async fn begin(stream: TcpStream, request: Request<Full<Bytes>>) -> Option<Response<Incoming>> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    // The connection ends with the answer's content, or when nobody reads that any more.
    tokio::spawn(connection);
    sender.send_request(request).await.ok()
}

async fn collected(response: Response<Incoming>) -> Option<AdminAnswer> {
    let status = response.status();
    let content = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let content = content.collect().await.ok()?.to_bytes();
    let content = serde_json::from_slice(&content).ok()?;
    Some(AdminAnswer { status, content })
}

/// Returns where a port that listens at `address` can be reached from this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

const NO_TOKEN: &str =
    "the file sets no `[admin] token`, and without one nothing can be changed through its port";

/// How long the gateway may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an answer may take: a reload of ten thousand routes takes seconds, and an upgrade waits for Redis.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// How long a stream may be silent: the admin port writes at least every ten seconds.
const EVENT_TIMEOUT: Duration = Duration::from_secs(25);

const EVENT_STREAM: &str = "text/event-stream";

#[cfg(test)]
mod tests;
