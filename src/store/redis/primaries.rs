//! Where a worker's calls go: to the one server, or to the primary of a Cluster that has the keys.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::call_error::CallError;
use super::cluster::Cluster;
use super::connect::{DialEndpoint, DialTarget};
use super::observer::Observers;
use super::pipeline::{Caller, Grouping, Pipeline, PipelineContext, PipelineState};
use super::sentinel::{NamedPrimary, PrimaryResolver, Sentinels};
use super::shared::RedisShared;
use super::watch::Watch;
use super::wire::{Call, Packed, Reply};
use crate::store::settings::{Address, Deployment, RedisSettings};

/// A worker's connections.
#[derive(Debug)]
pub(super) enum Primaries {
    /// All counters are on one server.
    One {
        pipeline: Rc<Pipeline>,
        name: Rc<str>,
        /// The primary that sentinels name; unused without sentinels.
        watch: Arc<Watch<NamedPrimary>>,
    },
    /// Each slot is on some primary.
    Cluster(Cluster),
}

impl Primaries {
    /// Opens the connections, on the runtime of this thread.
    pub(super) fn open(
        shared: &RedisShared,
        settings: &RedisSettings,
        timeout: Duration,
        observers: Rc<dyn Observers>,
    ) -> Self {
        let context = |grouping, server| PipelineContext {
            shared: shared.clone(),
            grouping,
            timeout,
            server,
            observers,
        };
        match resolver(settings, &shared.primary) {
            Ok((resolver, name)) => {
                let name: Rc<str> = name.into();
                let context = context(Grouping::OneCall, Rc::clone(&name));
                Self::One {
                    pipeline: Pipeline::open(resolver, context),
                    name,
                    watch: Arc::clone(&shared.primary),
                }
            }
            Err(seeds) => {
                let context = context(Grouping::CallEach, "cluster".into());
                Self::Cluster(Cluster::open(seeds, settings.clone(), context))
            }
        }
    }

    /// Lets the server of a plan's keys decide it.
    ///
    /// The Cluster's future is boxed, so that plans of a single server need no room for it.
    pub(super) async fn decide(
        &self,
        packed: Packed,
        caller: &Caller<'_>,
    ) -> Result<Reply, CallError> {
        match self {
            Self::One { pipeline, .. } => pipeline.decide(packed, caller).await,
            Self::Cluster(cluster) => Box::pin(cluster.decide(&packed, caller)).await,
        }
    }

    /// Calls a script on the server of its keys.
    pub(super) async fn call(&self, call: Call, caller: &Caller<'_>) -> Result<Value, CallError> {
        match self {
            Self::One { pipeline, .. } => pipeline.call(call, false, caller).await,
            Self::Cluster(cluster) => cluster.call(&call, caller).await,
        }
    }

    /// Returns the name of the server that has a slot.
    pub(super) fn server(&self, slot: impl FnOnce() -> u16) -> Rc<str> {
        match self {
            Self::One { name, .. } => Rc::clone(name),
            Self::Cluster(cluster) => cluster.server(slot()),
        }
    }

    /// Notes that the server that has a slot did not answer in time.
    pub(super) fn suspect(&self, slot: impl FnOnce() -> u16) {
        match self {
            Self::One { pipeline, .. } => pipeline.suspect(),
            Self::Cluster(cluster) => cluster.suspect(slot()),
        }
    }

    /// Says whether all counters are on one server.
    pub(super) fn is_one_server(&self) -> bool {
        matches!(self, Self::One { .. })
    }

    /// Says whether there is a server to ask.
    pub(super) fn is_known(&self) -> bool {
        match self {
            Self::One { pipeline, .. } => pipeline.state() == PipelineState::Up,
            Self::Cluster(cluster) => cluster.is_known(),
        }
    }

    /// Uses other credentials from now on.
    pub(super) fn reconfigure(&self, settings: &RedisSettings) {
        match self {
            // A change of the servers needs a restart.
            Self::One {
                pipeline, watch, ..
            } => {
                if let Ok((resolver, _)) = resolver(settings, watch) {
                    pipeline.reconfigure(resolver);
                }
            }
            Self::Cluster(cluster) => cluster.reconfigure(settings.clone()),
        }
    }
}

/// Returns how to find the one server that has all counters, and its name; or the seeds of a Cluster.
fn resolver(
    settings: &RedisSettings,
    watch: &Arc<Watch<NamedPrimary>>,
) -> Result<(PrimaryResolver, String), Vec<Address>> {
    let fixed = |endpoint| PrimaryResolver::Fixed(DialTarget::new(endpoint, settings));
    match &settings.deployment {
        Deployment::Single(address) => {
            let endpoint = DialEndpoint::Tcp(address.clone(), settings.tls.clone());
            Ok((fixed(endpoint), address.to_string()))
        }
        Deployment::Unix(path) => {
            let name = path.display().to_string();
            Ok((fixed(DialEndpoint::Unix(path.clone())), name))
        }
        Deployment::Sentinel { sentinels, name } => {
            let (sentinels, named) = (sentinels.clone(), Arc::clone(watch));
            let sentinels = Sentinels::new(sentinels, name.clone(), settings, named);
            Ok((PrimaryResolver::Sentinel(sentinels), name.to_string()))
        }
        Deployment::Cluster(seeds) => Err(seeds.clone()),
    }
}
