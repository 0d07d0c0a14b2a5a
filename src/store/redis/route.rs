//! Where a worker's calls go: to one server, or to whichever primary of a Cluster has the key.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use redis::Value;
use smallvec::SmallVec;

use super::RedisStore;
use super::cluster::Cluster;
use super::connect::{Endpoint, Target};
use super::link::{Context, Grouping, Link, LinkError, State};
use super::sentinel::{Resolver, Sentinels};
use super::wire::{Call, Packed, Reply, Script};
use crate::store::breaker::Breaker;
use crate::store::settings::{Address, Deployment, RedisSettings};

/// A worker's connections.
#[derive(Debug)]
pub(super) enum Route {
    /// All counters are on one server.
    One { link: Rc<Link>, breaker: Rc<Shared> },
    /// Each partition id is on some primary.
    Cluster(Cluster),
}

/// A breaker of the process: cloned here without touching a count that other workers touch.
#[derive(Debug)]
pub(super) struct Shared(Arc<Breaker>);

impl Route {
    /// Opens the connections, on the runtime of this thread.
    pub(super) fn open(store: &RedisStore) -> Self {
        let in_force = store.in_force();
        let settings = &in_force.redis;
        let context = |grouping| Context {
            clock: store.clock.clone(),
            grouping,
            timeout: in_force.timeout,
            is_eviction_told: Arc::clone(&store.is_eviction_told),
        };
        match resolver(settings) {
            Ok((resolver, name)) => Self::One {
                link: Link::open(resolver, context(Grouping::Together)),
                breaker: Rc::new(Shared(store.breaker(&name))),
            },
            Err(seeds) => {
                let context = context(Grouping::Apart);
                Self::Cluster(Cluster::open(seeds, settings.clone(), context))
            }
        }
    }

    /// Has the server of a plan's keys decide it; finding it in a Cluster takes room that the one
    /// server's plans need not have.
    pub(super) async fn decide(&self, packed: Packed) -> Result<Reply, LinkError> {
        match self {
            Self::One { link, .. } => link.decide(packed).await,
            Self::Cluster(cluster) => Box::pin(cluster.decide(&packed)).await,
        }
    }

    /// Calls a script on the server of its keys.
    pub(super) async fn call(&self, script: Script, call: &Call) -> Result<Value, LinkError> {
        let keys: SmallVec<[&[u8]; 4]> = call.keys.iter().map(|key| &**key).collect();
        let arguments: SmallVec<[&[u8]; 4]> = call.arguments.iter().map(Vec::as_slice).collect();
        match self {
            Self::One { link, .. } => link.call(script, &keys, &arguments, false).await,
            Self::Cluster(cluster) => cluster.call(script, &keys, &arguments).await,
        }
    }

    /// Returns the breaker of the server that has a key.
    pub(super) fn breaker(&self, key: &[u8], store: &RedisStore) -> Rc<Shared> {
        match self {
            Self::One { breaker, .. } => Rc::clone(breaker),
            Self::Cluster(cluster) => {
                cluster.breaker(key, |server| Rc::new(Shared(store.breaker(server))))
            }
        }
    }

    /// Says that the server that has a key did not answer in time.
    pub(super) fn suspect(&self, key: &[u8]) {
        match self {
            Self::One { link, .. } => link.suspect(),
            Self::Cluster(cluster) => cluster.suspect(key),
        }
    }

    /// Says whether two partition ids are kept in one place, so that one step can decide both.
    pub(super) fn is_one_place(&self) -> bool {
        matches!(self, Self::One { .. })
    }

    /// Says whether there is anybody to ask.
    pub(super) fn is_known(&self) -> bool {
        match self {
            Self::One { link, .. } => link.state() == State::Up,
            Self::Cluster(cluster) => cluster.is_known(),
        }
    }

    /// Counts the connections that stand.
    pub(super) fn connections(&self) -> u64 {
        match self {
            Self::One { link, .. } => u64::from(link.state() == State::Up),
            Self::Cluster(cluster) => cluster.connections(),
        }
    }

    /// Goes by other credentials from now on.
    pub(super) fn reconfigure(&self, settings: &RedisSettings) {
        match (self, resolver(settings)) {
            (Self::One { link, .. }, Ok((resolver, _))) => link.reconfigure(resolver),
            (Self::Cluster(cluster), _) => cluster.reconfigure(settings.clone()),
            // The servers are what they were: a change of them needs a restart.
            (Self::One { .. }, Err(_)) => {}
        }
    }
}

impl Deref for Shared {
    type Target = Breaker;
    fn deref(&self) -> &Breaker {
        &self.0
    }
}

/// Says how to find the one server that keeps all counters, and what it is called; an error is a
/// Cluster's seeds.
fn resolver(settings: &RedisSettings) -> Result<(Resolver, String), Vec<Address>> {
    let fixed = |endpoint| Resolver::Fixed(Target::new(endpoint, settings));
    match &settings.deployment {
        Deployment::Single(address) => {
            let endpoint = Endpoint::Tcp(address.clone(), settings.tls.clone());
            Ok((fixed(endpoint), address.to_string()))
        }
        Deployment::Unix(path) => {
            let name = path.display().to_string();
            Ok((fixed(Endpoint::Unix(path.clone())), name))
        }
        Deployment::Sentinel { sentinels, name } => {
            let sentinels = Sentinels::new(sentinels.clone(), name.clone(), settings);
            Ok((Resolver::Sentinel(sentinels), name.to_string()))
        }
        Deployment::Cluster(seeds) => Err(seeds.clone()),
    }
}
