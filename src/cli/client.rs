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
use serde_json::Value;
use tokio::net::TcpStream;

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

/// What the admin port answered.
#[derive(Debug)]
pub struct AdminAnswer {
    /// Whether it did what it was asked.
    pub status: StatusCode,
    /// What it says.
    pub content: Value,
}

/// Why the gateway cannot be asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Something is wrong with `[admin]`; this is the report.
    #[error("{0}")]
    Mistakes(String),
    /// The port is off.
    #[error("`[admin] address` is \"off\"")]
    Off,
    /// Nobody listens there.
    #[error("no gateway listens at {address} ({source}): does one run with this file?")]
    Unreachable {
        /// Where it should.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// It accepted, but did not answer in time.
    #[error("the gateway at {0} did not answer in time")]
    Late(SocketAddr),
    /// What listens there speaks something else.
    #[error("what listens at {0} does not answer like a gateway's admin port")]
    Foreign(SocketAddr),
    /// It wants another token than the file's.
    #[error(
        "the gateway at {0} has another token than the file: if it has changed, reload with SIGHUP"
    )]
    Token(SocketAddr),
    /// It runs with another file.
    #[error(
        "the gateway was started with `{running}`, and a reload reads that file: put this one there first, or compare \
         the two with `--against {running}`"
    )]
    OtherFile {
        /// That file's path.
        running: String,
    },
    /// It refused, and this is why.
    #[error("the gateway refused: {0}")]
    Refused(String),
}

impl ClientError {
    /// Says it on standard error, and returns the exit status.
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
}

impl AdminClient {
    /// Finds the gateway that runs with the file at `path`.
    ///
    /// # Errors
    /// Why it cannot be found.
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

    /// Has the gateway that runs with the file at `file` do what changes something, without content.
    ///
    /// # Errors
    /// As [`ask`](Self::ask), and if the file has no token.
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
    /// Why there is none, or why the gateway refuses this client.
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
        match answer.status {
            StatusCode::UNAUTHORIZED => Err(ClientError::Token(self.address)),
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                let detail = answer.content["detail"].as_str().unwrap_or_default();
                Err(ClientError::Refused(detail.to_owned()))
            }
            _ => Ok(answer),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<AdminAnswer, ClientError> {
        let timed_out = || io::Error::from(io::ErrorKind::TimedOut);
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(self.address));
        let connected = connecting.await.unwrap_or_else(|_| Err(timed_out()));
        let stream = connected.map_err(|source| self.unreachable(source))?;
        let answering = tokio::time::timeout(ANSWER_TIMEOUT, answer(stream, request));
        let answer = answering
            .await
            .map_err(|_| ClientError::Late(self.address))?;
        answer.ok_or(ClientError::Foreign(self.address))
    }

    /// Makes a request; none if the token does not fit into one.
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

/// Sends a request; none if no answer comes that the admin port could give.
async fn answer(stream: TcpStream, request: Request<Full<Bytes>>) -> Option<AdminAnswer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let asking = async {
        let response: Response<Incoming> = sender.send_request(request).await.ok()?;
        let status = response.status();
        let content = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let content = content.collect().await.ok()?.to_bytes();
        let content = serde_json::from_slice(&content).ok()?;
        Some(AdminAnswer { status, content })
    };
    tokio::pin!(asking);
    tokio::select! {
        answer = &mut asking => answer,
        // It may end before the last bytes are read.
        _ = connection => asking.await,
    }
}

/// Returns where a port can be reached from this machine that listens at `address`.
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

/// How long it may take to answer: a reload of ten thousand routes takes seconds, and an upgrade waits for Redis.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(2);

/// Most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;
