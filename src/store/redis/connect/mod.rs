//! A connection to one server that is ready for decisions: dialled, encrypted and authenticated.
//!
//! Sockets and TLS are made here and handed to the client library. So names are looked up anew for
//! each connection, TLS sessions are resumed, and the library's driver runs on the worker's own
//! thread. When the driver ends, the connection is gone.
//!
//! Scripts are not loaded: the first call that needs one brings it. The server must permit `SELECT` if
//! a database is named, and `ROLE` behind Sentinel. It may refuse `INFO`, which only tells whether it
//! may evict keys and whether it writes an append-only file.

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

use crate::store::settings::{Address, Password, RedisSettings};
use crate::tls::ClientTls;
use prepare::prepare;

pub(super) use error::{CONNECT_TIMEOUT, DialError};
pub(crate) use prepare::KeyKeeping;
pub(super) use prepare::Wanted;

/// One server, and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialTarget {
    pub(super) endpoint: DialEndpoint,
    pub(super) username: Option<Box<str>>,
    pub(super) password: Option<Password>,
    pub(super) database: u32,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DialEndpoint {
    /// On the network, with TLS if it is given.
    Tcp(Address, Option<ClientTls>),
    /// On this machine's Unix socket.
    Unix(PathBuf),
}

/// A connection that is ready for decisions.
#[derive(Debug)]
pub(super) struct ReadyConnection {
    pub(super) connection: MultiplexedConnection,
    /// Ends when the connection does. Dropping it closes the connection.
    pub(super) driver: ConnectionDriver,
    pub(super) keeping: KeyKeeping,
}

/// The task that reads and writes on a connection. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct ConnectionDriver(JoinHandle<()>);

/// Makes connections to one target, and keeps what it learns for the next time.
#[derive(Debug)]
pub(super) struct Dialer {
    target: DialTarget,
    /// The addresses that the name had last; used if it cannot be looked up.
    addresses: Vec<SocketAddr>,
    protocol: ProtocolVersion,
}

impl DialTarget {
    /// Returns the server at `endpoint`, with the credentials of the settings.
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

    /// Connects and prepares for decisions, within [`CONNECT_TIMEOUT`]. A decision may take
    /// `decision_timeout`.
    pub(super) async fn connect(
        &mut self,
        wanted: Wanted,
        decision_timeout: Duration,
    ) -> Result<ReadyConnection, DialError> {
        let connecting = async {
            let (mut connection, driver) = self.open(decision_timeout).await?;
            let keeping = prepare(&mut connection, wanted).await?;
            Ok(ReadyConnection {
                connection,
                driver,
                keeping,
            })
        };
        timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or(Err(DialError::Elapsed))
    }

    /// Connects and authenticates; the caller sets the deadline.
    ///
    /// This speaks RESP3, or RESP2 from then on if the server does not know RESP3.
    pub(super) async fn open(
        &mut self,
        decision_timeout: Duration,
    ) -> Result<(MultiplexedConnection, ConnectionDriver), DialError> {
        match self.greet(decision_timeout).await {
            Err(DialError::Resp3Unsupported) => {
                self.protocol = ProtocolVersion::RESP2;
                self.greet(decision_timeout).await
            }
            greeted => greeted,
        }
    }

    async fn greet(
        &mut self,
        decision_timeout: Duration,
    ) -> Result<(MultiplexedConnection, ConnectionDriver), DialError> {
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
                let own = || ServerName::try_from(String::from(address.host));
                let name = tls.server_name.clone().map_or_else(own, Ok);
                let name = name.map_err(|error| DialError::Tls(io::Error::other(error)))?;
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
        // Announcing the library's name would require permission for one more command.
        let mut info = RedisConnectionInfo::default()
            .set_protocol(self.protocol)
            .set_db(i64::from(*database))
            .set_skip_set_lib_name();
        if let Some(username) = username {
            info = info.set_username(username);
        }
        if let Some(password) = password {
            info = info.set_password(&*password.text());
        }
        info
    }
}

impl Future for ConnectionDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sets a socket up so that small writes are sent at once and a dead peer is noticed.
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

/// Greets the server over `stream`, and starts a task on this thread that drives the connection.
async fn drive<S>(
    info: &RedisConnectionInfo,
    stream: S,
) -> Result<(MultiplexedConnection, ConnectionDriver), DialError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // The callers set deadlines, and the pipeline bounds the number of calls under way.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_MAX)
        .set_write_backpressure_boundary(WRITE_BYTES_MAX);
    let (connection, driver) = MultiplexedConnection::new_with_config(info, stream, config).await?;
    Ok((
        connection,
        ConnectionDriver(tokio::task::spawn_local(driver)),
    ))
}

/// Longest look-up of a name whose last addresses are known: a mute resolver could use up all the time
/// that a connection may take, and the rest of that is needed for connecting.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;
/// Most calls that wait for the driver to take them: more than the pipeline has under way.
const PIPELINE_MAX: usize = 128;
/// Most bytes that are written together: about two batches of plans.
const WRITE_BYTES_MAX: usize = 64 << 10;
/// If nothing acknowledges what was sent for this many times a decision's timeout, the connection is
/// given up. The bounds below apply, since a lost segment alone costs 0.2 s.
const TIMEOUTS_UNACKNOWLEDGED: u32 = 20;
const UNACKNOWLEDGED_MIN: Duration = Duration::from_secs(1);
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);
/// An idle connection is probed after this time, at this interval, and given up after this many
/// probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;
