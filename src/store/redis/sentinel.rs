//! Which server is asked: one that the settings name, or the primary that sentinels name.
//!
//! Sentinels are asked in turn; one that failed goes to the end. The server they name must call itself
//! a primary. While it is in use, they are asked again every [`ASK_EVERY`], so a primary that was
//! replaced and does not know it yet is left within that time. Writes to a primary that is cut off from
//! its replicas are lost in a failover; `min-replicas-to-write` on the server bounds that.

use std::future::pending;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use super::connect::{Connected, DialEndpoint, DialError, DialTarget, Dialer, Driver, Wanted};
use crate::store::settings::{Address, RedisSettings, Secret};
use crate::store::tls::Tls;

/// How to find a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolver {
    /// The settings name it.
    Fixed(DialTarget),
    /// Sentinels name it.
    Sentinel(Sentinels),
}

/// The sentinels to ask for the primary, and the credentials for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentinels {
    addresses: Vec<Address>,
    name: Box<str>,
    username: Option<Box<str>>,
    password: Option<Secret>,
    tls: Option<Tls>,
    /// The settings of the primary, whose address the sentinels name.
    primary: RedisSettings,
}

/// A resolver at work: what it knows already, and its connections.
#[derive(Debug)]
pub(super) enum Locator {
    Fixed(Dialer),
    Sentinel(Box<Search>),
}

/// The search for a primary.
#[derive(Debug)]
pub(super) struct Search {
    sentinels: Sentinels,
    /// In the order in which they are asked.
    order: Vec<Address>,
    /// The sentinel that answered last.
    asked: Option<(MultiplexedConnection, Driver)>,
    /// The primary that it named.
    primary: Option<Dialer>,
    address: Option<Address>,
}

impl Sentinels {
    pub(super) fn new(addresses: Vec<Address>, name: Box<str>, settings: &RedisSettings) -> Self {
        Self {
            addresses,
            name,
            username: settings.sentinel_username.clone(),
            password: settings.sentinel_password.clone(),
            tls: settings.tls.clone(),
            primary: settings.clone(),
        }
    }
}

impl Locator {
    pub(super) fn new(resolver: Resolver) -> Self {
        match resolver {
            Resolver::Fixed(target) => Self::Fixed(Dialer::new(target)),
            Resolver::Sentinel(sentinels) => Self::Sentinel(Box::new(Search {
                order: sentinels.addresses.clone(),
                sentinels,
                asked: None,
                primary: None,
                address: None,
            })),
        }
    }

    /// Connects to the server that has the counters now.
    pub(super) async fn connect(
        &mut self,
        decision_timeout: Duration,
    ) -> Result<Connected, DialError> {
        match self {
            Self::Fixed(dialer) => dialer.connect(Wanted::Any, decision_timeout).await,
            Self::Sentinel(search) => search.connect(decision_timeout).await,
        }
    }

    /// Waits until another server has the counters.
    pub(super) async fn moved(&mut self, decision_timeout: Duration) {
        match self {
            Self::Fixed(_) => pending().await,
            Self::Sentinel(search) => search.moved(decision_timeout).await,
        }
    }

    /// Returns the name of the server, for logs.
    pub(super) fn server(&self) -> String {
        let dialer = match self {
            Self::Fixed(dialer) => Some(dialer),
            Self::Sentinel(search) => search.primary.as_ref(),
        };
        match dialer.map(|dialer| &dialer.target().endpoint) {
            Some(DialEndpoint::Tcp(address, _)) => address.to_string(),
            Some(DialEndpoint::Unix(path)) => path.display().to_string(),
            None => "none".to_owned(),
        }
    }
}

impl Search {
    async fn connect(&mut self, decision_timeout: Duration) -> Result<Connected, DialError> {
        let address = self.ask(decision_timeout).await?;
        let dialer = match self.primary.take() {
            Some(dialer) if self.address.as_ref() == Some(&address) => self.primary.insert(dialer),
            _ => {
                let endpoint = DialEndpoint::Tcp(address.clone(), self.sentinels.tls.clone());
                let target = DialTarget::new(endpoint, &self.sentinels.primary);
                self.address = Some(address);
                self.primary.insert(Dialer::new(target))
            }
        };
        dialer.connect(Wanted::Primary, decision_timeout).await
    }

    async fn moved(&mut self, decision_timeout: Duration) {
        loop {
            sleep(ASK_EVERY).await;
            // If no sentinel can be reached, the primary stays in use.
            if let Ok(address) = self.ask(decision_timeout).await
                && self.address.as_ref() != Some(&address)
            {
                return;
            }
        }
    }

    /// Asks for the primary's address: first the sentinel that answered last, then all in turn.
    async fn ask(&mut self, decision_timeout: Duration) -> Result<Address, DialError> {
        let mut failure = DialError::NoSentinel("there is no sentinel".to_owned());
        for _ in 0..=self.order.len() {
            let was_connected = self.asked.is_some();
            match timeout(SENTINEL_TIMEOUT, self.ask_one(decision_timeout)).await {
                Ok(Ok(address)) => return Ok(address),
                Ok(Err(error)) => failure = DialError::NoSentinel(error.to_string()),
                Err(_) => failure = DialError::NoSentinel("no answer".to_owned()),
            }
            // If an old connection broke, the sentinel gets a second chance.
            if !was_connected {
                self.order.rotate_left(1);
            }
        }
        Err(failure)
    }

    /// Asks the first sentinel, and keeps the connection if it answers.
    async fn ask_one(&mut self, decision_timeout: Duration) -> Result<Address, DialError> {
        let (mut connection, driver) = if let Some(asked) = self.asked.take() {
            asked
        } else {
            let Some(address) = self.order.first() else {
                return Err(DialError::NoSentinel("there is no sentinel".to_owned()));
            };
            let endpoint = DialEndpoint::Tcp(address.clone(), self.sentinels.tls.clone());
            let target = DialTarget {
                endpoint,
                username: self.sentinels.username.clone(),
                password: self.sentinels.password.clone(),
                database: 0,
            };
            Dialer::new(target).open(decision_timeout).await?
        };
        let mut question = Cmd::new();
        question
            .arg("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&*self.sentinels.name);
        let answer = connection.send_packed_command(&question).await?;
        let address = read_address(&answer)?;
        self.asked = Some((connection, driver));
        Ok(address)
    }
}

/// Reads a sentinel's answer.
fn read_address(answer: &Value) -> Result<Address, DialError> {
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    match answer {
        Value::Nil => Err(DialError::Server(
            "it knows no primary of that name".to_owned(),
        )),
        Value::ServerError(error) => Err(DialError::from_server(error)),
        Value::Array(parts) => match parts.as_slice() {
            [host, port] => text(host).zip(text(port).and_then(|port| port.parse().ok())),
            _ => None,
        }
        .map(|(host, port)| Address {
            host: host.into(),
            port,
        })
        .ok_or_else(unreadable),
        _ => Err(unreadable()),
    }
}

fn unreadable() -> DialError {
    DialError::Server("its answer is no address".to_owned())
}

/// How often sentinels are asked while their primary is in use.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Longest from dialling a sentinel to its answer.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);
