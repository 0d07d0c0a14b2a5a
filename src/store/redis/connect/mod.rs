//! A connection to one server that is ready for decisions: dialled, encrypted, authenticated, the
//! scripts loaded.
//!
//! Sockets and TLS are made here and handed to the client library, so that names are looked up
//! anew for each connection, TLS sessions resume, and the library's driver runs on the worker's own
//! thread. What the driver's end means is known at once: the connection is gone.
//!
//! The server must permit `SCRIPT LOAD`, `EVALSHA` and `EVAL`; `SELECT` if a database is named, `ROLE`
//! behind Sentinel. `INFO` is asked whether keys may be evicted, and may be refused.

mod error;
mod prepare;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::store::settings::{Address, RedisSettings, Secret};
use crate::store::tls::Tls;
use prepare::prepare;

pub(super) use error::{CONNECT_TIMEOUT, DialError};
pub(super) use prepare::Wanted;

/// One server, and how to be let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialTarget {
    pub(super) endpoint: DialEndpoint,
    pub(super) username: Option<Box<str>>,
    pub(super) password: Option<Secret>,
    pub(super) database: u32,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DialEndpoint {
    /// On the network, perhaps encrypted.
    Tcp(Address, Option<Tls>),
    /// On this machine.
    Unix(PathBuf),
}

/// A connection that is ready for decisions.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    /// Ends when the connection does; dropped, it closes it.
    pub(super) driver: Driver,
    /// How the server makes room, if it says so and keys may be lost by it.
    pub(super) eviction: Option<String>,
}

/// The task that reads and writes; dropped, the connection closes.
#[derive(Debug)]
pub(super) struct Driver(JoinHandle<()>);

/// Makes connections to one target, and remembers what helps the next time.
#[derive(Debug)]
pub(super) struct Dialer {
    target: DialTarget,
    /// What the name meant when last it was known; used when it cannot be looked up.
    addresses: Vec<SocketAddr>,
    protocol: ProtocolVersion,
}

impl DialTarget {
    /// The server at `endpoint`, entered as the settings say.
    pub(super) fn new(endpoint: DialEndpoint, settings: &RedisSettings) -> Self {
        Self {
            endpoint,
            username: settings.username.clone(),
            password: settings.password.clone(),
            database: settings.database,
        }
    }
}

impl Dialer {
    pub(super) fn new(target: DialTarget) -> Self {
        Self {
            target,
            addresses: Vec::new(),
            protocol: ProtocolVersion::RESP3,
        }
    }

    pub(super) fn target(&self) -> &DialTarget {
        &self.target
    }

    /// Connects and prepares for decisions, within [`CONNECT_TIMEOUT`]; `decision_timeout` is how long a
    /// decision may take.
    pub(super) async fn connect(
        &mut self,
        wanted: Wanted,
        decision_timeout: Duration,
    ) -> Result<Connected, DialError> {
        let connecting = async {
            let (mut connection, driver) = self.open(decision_timeout).await?;
            let eviction = prepare(&mut connection, wanted).await?;
            Ok(Connected {
                connection,
                driver,
                eviction,
            })
        };
        timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or(Err(DialError::Elapsed))
    }

    /// Connects and authenticates; the caller has the deadline.
    ///
    /// RESP3 if it is spoken, and RESP2 from then on if it is not.
    pub(super) async fn open(
        &mut self,
        decision_timeout: Duration,
    ) -> Result<(MultiplexedConnection, Driver), DialError> {
        match self.greet(decision_timeout).await {
            Err(DialError::Unspoken) => {
                self.protocol = ProtocolVersion::RESP2;
                self.greet(decision_timeout).await
            }
            greeted => greeted,
        }
    }

    async fn greet(
        &mut self,
        decision_timeout: Duration,
    ) -> Result<(MultiplexedConnection, Driver), DialError> {
        let info = self.info();
        match self.target.endpoint.clone() {
            DialEndpoint::Unix(path) => {
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(DialError::Connect)?;
                drive(&info, stream).await
            }
            DialEndpoint::Tcp(address, None) => {
                let stream = self.dial(&address, decision_timeout).await?;
                drive(&info, stream).await
            }
            DialEndpoint::Tcp(address, Some(tls)) => {
                let stream = self.dial(&address, decision_timeout).await?;
                let name = ServerName::try_from(String::from(address.host))
                    .map_err(|error| DialError::Tls(io::Error::other(error)))?;
                let stream = TlsConnector::from(tls.config)
                    .connect(name, stream)
                    .await
                    .map_err(DialError::Tls)?;
                drive(&info, stream).await
            }
        }
    }

    /// Connects to the first of the host's addresses that accepts.
    async fn dial(
        &mut self,
        address: &Address,
        decision_timeout: Duration,
    ) -> Result<TcpStream, DialError> {
        let Address { host, port } = address;
        let share = if self.addresses.is_empty() {
            CONNECT_TIMEOUT
        } else {
            LOOKUP_TIMEOUT
        };
        let failure = match timeout(share, lookup_host((&**host, *port))).await {
            Ok(Ok(found)) => {
                self.addresses = found.take(ADDRESSES_MAX).collect();
                io::Error::from(io::ErrorKind::NotFound)
            }
            Ok(Err(error)) => error,
            Err(_) => io::Error::from(io::ErrorKind::TimedOut),
        };
        let mut failure = DialError::Resolve(failure);
        let share = CONNECT_TIMEOUT / u32::try_from(self.addresses.len().max(1)).unwrap_or(1);
        for &address in &self.addresses {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    tune(&stream, decision_timeout).map_err(DialError::Connect)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => failure = DialError::Connect(error),
                Err(_) => failure = DialError::Elapsed,
            }
        }
        Err(failure)
    }

    fn info(&self) -> RedisConnectionInfo {
        let DialTarget {
            username,
            password,
            database,
            ..
        } = &self.target;
        // The library's name would take one more command, that users then need a right to.
        let mut info = RedisConnectionInfo::default()
            .set_protocol(self.protocol)
            .set_db(i64::from(*database))
            .set_skip_set_lib_name();
        if let Some(username) = username {
            info = info.set_username(username);
        }
        if let Some(Secret(password)) = password {
            info = info.set_password(password);
        }
        info
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sets a socket up so that small writes go out at once and a dead peer is noticed.
fn tune(stream: &TcpStream, decision_timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let unacknowledged =
        (decision_timeout * TIMEOUTS_UNACKNOWLEDGED).clamp(UNACKNOWLEDGED_MIN, UNACKNOWLEDGED_MAX);
    socket.set_tcp_user_timeout(Some(unacknowledged))?;
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES),
    )
}

/// Greets the server over `stream`, and has the connection driven by a task on this thread.
async fn drive<S>(
    info: &RedisConnectionInfo,
    stream: S,
) -> Result<(MultiplexedConnection, Driver), DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Whoever calls has a deadline; how many calls are under way, the pipeline bounds.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_MAX)
        .set_write_backpressure_boundary(WRITE_BYTES_MAX);
    let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config).await?;
    Ok((connection, Driver(tokio::task::spawn_local(driver))))
}

/// A name's look-up, if what it meant before is known: who answers for names may be mute for longer
/// than a connection may take, and what is left must do for connecting.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Most calls handed to the driver before it takes them: more than the pipeline has under way.
const PIPELINE_MAX: usize = 128;
/// Written at once, if there is so much: some two batches of plans.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// After so many times a decision's time without a sign that what was sent arrived, the connection
/// is given up, within the bounds below: a lost segment alone costs 0.2 s.
const TIMEOUTS_UNACKNOWLEDGED: u32 = 20;
const UNACKNOWLEDGED_MIN: Duration = Duration::from_secs(1);
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// An idle connection is probed after so long, so often, and given up after so many.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;
