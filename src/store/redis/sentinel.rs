//! Which server is asked: one that the settings name, or the primary that sentinels name.
//!
//! One worker of the process asks all sentinels every [`ASK_EVERY`], and at once if a connection broke,
//! so a primary that was replaced and does not know it yet is abandoned within that time. Of the sentinels
//! that answer, the one with the newest configuration (the highest `config-epoch`) is trusted; one
//! answer suffices. The server that it names must call itself a primary. Writes to a primary that is
//! cut off from its replicas are lost in a failover; `min-replicas-to-write` on the server bounds that.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::connect::{
    ConnectionDriver, DialEndpoint, DialError, DialTarget, Dialer, ReadyConnection, Wanted,
};
use super::reply::{list, named, text};
use super::watch::{Asker, Watch};
use crate::store::settings::{Address, Password, RedisSettings};
use crate::tls::ClientTls;

/// How to find a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrimaryResolver {
    /// The settings name the server.
    Fixed(DialTarget),
    /// Sentinels name the server, which is their primary.
    Sentinel(Sentinels),
}

/// The sentinels to ask for the primary, and the credentials for them and for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentinels {
    addresses: Vec<Address>,
    name: Box<str>,
    username: Option<Box<str>>,
    password: Option<Password>,
    tls: Option<ClientTls>,
    /// The settings of the primary, whose address the sentinels name.
    primary: RedisSettings,
    /// Where the sentinels' answers are published, for all workers.
    watch: Arc<Watch<NamedPrimary>>,
}

/// A [`PrimaryResolver`] at work: what it knows already, and its connections.
#[derive(Debug)]
pub(super) enum Locator {
    Fixed(Dialer),
    Sentinel(Box<Search>),
}

/// The search for a primary; until it is dropped, its task takes part in asking the sentinels.
#[derive(Debug)]
pub(super) struct Search {
    sentinels: Sentinels,
    /// The primary that was named last.
    primary: Option<(Address, Dialer)>,
    asking: AbortHandle,
}

/// Asks all sentinels.
#[derive(Debug)]
struct SentinelPoller {
    name: Box<str>,
    password: Option<Password>,
    members: Vec<SentinelMember>,
    /// Where the answers are published: its last one is the primary that was accepted last.
    watch: Arc<Watch<NamedPrimary>>,
    decision_timeout: Duration,
}

/// A sentinel, and the connection to it.
#[derive(Debug)]
struct SentinelMember {
    address: Address,
    dialer: Dialer,
    connection: Option<(MultiplexedConnection, ConnectionDriver)>,
}

/// A primary, and how new the sentinels' configuration that names it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    address: Address,
    /// The `config-epoch`: each failover has a higher one.
    epoch: u64,
}

impl Sentinels {
    /// Describes sentinels whose answers are published in `watch`.
    pub(super) fn new(
        addresses: Vec<Address>,
        name: Box<str>,
        settings: &RedisSettings,
        watch: Arc<Watch<NamedPrimary>>,
    ) -> Self {
        Self {
            addresses,
            name,
            username: settings.sentinel_username.clone(),
            password: settings.sentinel_password.clone(),
            tls: settings.tls.clone(),
            primary: settings.clone(),
            watch,
        }
    }
}

impl Locator {
    /// Begins to locate a server, on this thread's runtime; a decision may take `decision_timeout`.
    pub(super) fn new(resolver: PrimaryResolver, decision_timeout: Duration) -> Self {
        match resolver {
            PrimaryResolver::Fixed(target) => Self::Fixed(Dialer::new(target)),
            PrimaryResolver::Sentinel(sentinels) => {
                let poller = SentinelPoller::new(&sentinels, decision_timeout);
                let watch = Arc::clone(&sentinels.watch);
                let asking = async move { watch.lead(poller).await };
                Self::Sentinel(Box::new(Search {
                    sentinels,
                    primary: None,
                    asking: tokio::task::spawn_local(asking).abort_handle(),
                }))
            }
        }
    }

    /// Connects to the server that has the counters now.
    pub(super) async fn connect(
        &mut self,
        decision_timeout: Duration,
    ) -> Result<ReadyConnection, DialError> {
        match self {
            Self::Fixed(dialer) => dialer.connect(Wanted::Any, decision_timeout).await,
            Self::Sentinel(search) => search.connect(decision_timeout).await,
        }
    }

    /// Waits until another server has the counters.
    pub(super) async fn moved(&mut self) {
        match self {
            Self::Fixed(_) => pending().await,
            Self::Sentinel(search) => search.moved().await,
        }
    }

    /// Returns how often the password has changed.
    pub(super) fn password_version(&self) -> u64 {
        self.password().map_or(0, Password::version)
    }

    /// Reads the password again, if it came from a file.
    pub(super) fn refresh_password(&self) {
        if let Some(password) = self.password() {
            password.refresh("password");
        }
    }

    fn password(&self) -> Option<&Password> {
        match self {
            Self::Fixed(dialer) => dialer.target().password.as_ref(),
            Self::Sentinel(search) => search.sentinels.primary.password.as_ref(),
        }
    }

    /// Returns the name of the server, for logs.
    pub(super) fn server(&self) -> String {
        let dialer = match self {
            Self::Fixed(dialer) => Some(dialer),
            Self::Sentinel(search) => search.primary.as_ref().map(|(_, dialer)| dialer),
        };
        match dialer.map(|dialer| &dialer.target().endpoint) {
            Some(DialEndpoint::Tcp(address, _)) => address.to_string(),
            Some(DialEndpoint::Unix(path)) => path.display().to_string(),
            None => "none".to_owned(),
        }
    }
}

impl Search {
    async fn connect(&mut self, decision_timeout: Duration) -> Result<ReadyConnection, DialError> {
        let address = self.ask().await?;
        let dialer = match self.primary.take() {
            Some((before, dialer)) if before == address => dialer,
            _ => {
                let endpoint = DialEndpoint::Tcp(address.clone(), self.sentinels.tls.clone());
                Dialer::new(DialTarget::new(endpoint, &self.sentinels.primary))
            }
        };
        let (_, dialer) = self.primary.insert((address, dialer));
        dialer.connect(Wanted::Primary, decision_timeout).await
    }

    /// Returns the primary's address, as the sentinels say just now.
    async fn ask(&self) -> Result<Address, DialError> {
        let watch = &self.sentinels.watch;
        watch.news().await;
        let bulletins = watch.subscribe();
        let last = bulletins.borrow();
        match (&last.failure, &last.found) {
            (None, Some((_, named))) => Ok(named.address.clone()),
            (failure, _) => Err(DialError::NoSentinel(failure.clone().unwrap_or_default())),
        }
    }

    /// Waits until the sentinels name another primary. If none can be reached, the old one stays.
    async fn moved(&mut self) {
        let mut bulletins = self.sentinels.watch.subscribe();
        let current = self.primary.as_ref().map(|(address, _)| address);
        let named = bulletins.wait_for(|last| match &last.found {
            Some((_, named)) => Some(&named.address) != current,
            None => false,
        });
        // Waiting fails only if there is no sender, and `self` has it.
        drop(named.await);
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl SentinelPoller {
    fn new(sentinels: &Sentinels, decision_timeout: Duration) -> Self {
        let member = |address: &Address| {
            let target = DialTarget {
                endpoint: DialEndpoint::Tcp(address.clone(), sentinels.tls.clone()),
                username: sentinels.username.clone(),
                password: sentinels.password.clone(),
                database: 0,
            };
            SentinelMember {
                address: address.clone(),
                dialer: Dialer::new(target),
                connection: None,
            }
        };
        Self {
            name: sentinels.name.clone(),
            password: sentinels.password.clone(),
            members: sentinels.addresses.iter().map(member).collect(),
            watch: Arc::clone(&sentinels.watch),
            decision_timeout,
        }
    }

    /// Returns the newest of these answers, if it can be trusted.
    ///
    /// An epoch that is lower than the one accepted last is trusted only if most of the sentinels answer,
    /// because then they were set up anew. Otherwise, the sentinels that know better may only be away.
    fn newest(&self, answers: &[NamedPrimary]) -> Option<NamedPrimary> {
        let newest = answers.iter().max_by_key(|named| named.epoch)?;
        let bulletins = self.watch.subscribe();
        let last = bulletins.borrow();
        let is_older = (last.found.as_ref()).is_some_and(|(_, known)| newest.epoch < known.epoch);
        let are_most = answers.len() * 2 > self.members.len();
        (!is_older || are_most).then(|| newest.clone())
    }
}

impl Asker for SentinelPoller {
    type Found = NamedPrimary;

    async fn ask(&mut self) -> Result<NamedPrimary, String> {
        let (name, decision_timeout) = (&*self.name, self.decision_timeout);
        let asking = (self.members.iter_mut()).map(async |member| {
            let asking = timeout(SENTINEL_TIMEOUT, member.ask(name, decision_timeout));
            let answer = asking.await.unwrap_or_else(|_| Err(said("no answer")));
            answer.map_err(|error| (member.address.clone(), error))
        });
        let (mut answers, mut failure, mut is_refused) = (Vec::new(), None, false);
        for answer in join_all(asking).await {
            match answer {
                Ok(named) => answers.push(named),
                Err((address, error)) => {
                    is_refused |= error.is_refusal();
                    failure = Some(format!("{address}: {error}"));
                }
            }
        }
        if let Some(password) = self.password.as_ref().filter(|_| is_refused) {
            password.refresh("sentinel_password");
        }
        let failure = failure.filter(|_| answers.is_empty());
        let failure = || failure.unwrap_or_else(|| OUTDATED.to_owned());
        self.newest(&answers).ok_or_else(failure)
    }

    fn idle(&self) -> Duration {
        ASK_EVERY
    }

    /// Logs nothing, because each worker logs why it has no connection.
    fn log(&self, _: &Result<NamedPrimary, String>) {}
}

impl SentinelMember {
    /// Asks the sentinel for the primary. If the connection kept from before fails, a new one is tried.
    async fn ask(
        &mut self,
        name: &str,
        decision_timeout: Duration,
    ) -> Result<NamedPrimary, DialError> {
        if let Some((mut connection, driver)) = self.connection.take()
            && let Ok(answers) = question(&mut connection, name).await
        {
            self.connection = Some((connection, driver));
            return read(&answers);
        }
        let (mut connection, driver) = self.dialer.open(decision_timeout).await?;
        let answers = question(&mut connection, name).await?;
        self.connection = Some((connection, driver));
        read(&answers)
    }
}

/// Asks for the primary's address and for the epoch.
///
/// `SENTINEL MASTER` has both, but the sentinel that leads a failover answers the old address with the
/// new epoch until all replicas follow the new primary.
async fn question(
    connection: &mut MultiplexedConnection,
    name: &str,
) -> redis::RedisResult<Vec<Value>> {
    let mut pipeline = redis::Pipeline::new();
    for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER"] {
        pipeline.cmd("SENTINEL").arg(question).arg(name);
    }
    connection.send_packed_commands(&pipeline, 0, 2).await
}

/// Reads a sentinel's answers.
fn read(answers: &[Value]) -> Result<NamedPrimary, DialError> {
    let address = match answers.first() {
        Some(Value::Nil) => return Err(said("it monitors no primary of that name")),
        Some(Value::ServerError(error)) => return Err(DialError::from_server(error)),
        Some(address) => match list(address) {
            Some([host, port]) => text(host).zip(text(port).and_then(|port| port.parse().ok())),
            _ => None,
        },
        None => None,
    };
    let epoch = match answers.get(1) {
        Some(Value::ServerError(error)) => return Err(DialError::from_server(error)),
        Some(facts) => named(facts, "config-epoch").and_then(|epoch| epoch.parse().ok()),
        None => None,
    };
    let (host, port) = address.ok_or_else(|| said("its answer is not an address"))?;
    let host = host.into();
    Ok(NamedPrimary {
        address: Address { host, port },
        epoch: epoch.ok_or_else(|| said("its answer has no config-epoch"))?,
    })
}

fn said(text: &str) -> DialError {
    DialError::Server(text.to_owned())
}

/// Why the answers of sentinels are not trusted although there are some.
const OUTDATED: &str =
    "the sentinels that answer are out of date: they name a primary that was already replaced";
/// How often sentinels are asked, about.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Longest time from dialling a sentinel to its answer.
const SENTINEL_TIMEOUT: Duration = Duration::from_millis(500);
