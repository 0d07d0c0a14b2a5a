//! What the whole process knows of the endpoints of its upstreams: which ones there are, and whether
//! they work.
//!
//! [`Endpoints`] keeps this across reloads: an endpoint that stays in an upstream of the same name keeps
//! its condition and its counters. Each address of a name is an endpoint ([`names`]), but `localhost` is
//! a single one. Requests never wait for the lock of [`Endpoints`], although their failures eject
//! endpoints and their answers take them back. Name look-ups and checks run on the control thread.

mod budget;
pub(super) mod names;
mod resolver;
mod state;
mod status;
mod upstream;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::names::NameCache;
pub use self::resolver::{NameResolver, NameTable};
pub(super) use self::state::{EndpointState, Failure};
pub use self::status::{EndpointStatus, UpstreamStatus};
use self::upstream::Counts;
pub use self::upstream::UpstreamState;
pub(super) use self::upstream::{Member, Members, RequestPermit, Unresolved};
use crate::clock::{Clock, Timestamp};
use crate::metrics::Metrics;
use crate::snapshot::{Endpoint, HttpUpstream, Scheme, Upstream, UpstreamKind};

/// The endpoints of the process.
#[derive(Debug)]
pub struct Endpoints {
    clock: Clock,
    metrics: Arc<Metrics>,
    known: Mutex<KnownEndpoint>,
}

/// State under the lock of [`Endpoints`]; requests never take that lock.
#[derive(Debug, Default)]
struct KnownEndpoint {
    resolver: NameResolver,
    /// The upstreams of the configuration in force.
    in_force: Vec<Arc<UpstreamState>>,
    /// Upstreams of earlier configurations, at which requests may still be under way.
    retired: Vec<Weak<UpstreamState>>,
    names: NameCache,
    states: HashMap<EndpointKey, Weak<EndpointState>>,
    counts: HashMap<Arc<str>, Weak<Counts>>,
}

/// Name of the upstream, scheme of the endpoint, its host and port, and its address if the host is a
/// name other than `localhost`.
type EndpointKey = (Arc<str>, Scheme, Box<str>, Option<IpAddr>);

impl Endpoints {
    /// Makes an empty set of endpoints.
    pub fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            clock,
            metrics,
            known: Mutex::default(),
        }
    }

    /// Resolves names by `resolver` from now on.
    pub fn resolve_by(&self, resolver: NameResolver) {
        self.known().resolver = resolver;
    }

    /// Puts `upstreams` in force, and returns their states in the same order; none for built-in answers.
    /// An upstream that has not changed keeps its state.
    pub fn adopt(&self, upstreams: &[Arc<Upstream>]) -> Vec<Option<Arc<UpstreamState>>> {
        let mut known = self.known();
        let known = &mut *known;
        let mut all = Vec::new();
        for upstream in upstreams {
            let UpstreamKind::Http(http) = &upstream.kind else {
                all.push(None);
                continue;
            };
            let same = (known.in_force.iter()).find(|one| *one.upstream == **upstream);
            let state = same.cloned().unwrap_or_else(|| {
                let members = known.members(upstream, http, &self.metrics);
                let counts = known.counts(&upstream.name);
                Arc::new(UpstreamState::new(Arc::clone(upstream), counts, members))
            });
            state.make_current();
            // Sets the metric at once, so that it exists from the beginning.
            self.show_available(&state, self.clock.now());
            all.push(Some(state));
        }
        let in_force: Vec<_> = all.iter().flatten().cloned().collect();
        for old in std::mem::replace(&mut known.in_force, in_force) {
            if !known.in_force.iter().any(|one| Arc::ptr_eq(one, &old)) {
                old.retire();
                known.retired.push(Arc::downgrade(&old));
            }
        }
        all
    }

    /// Whether every name has been looked up, with or without a result.
    pub fn are_names_known(&self) -> bool {
        let known = self.known();
        let upstreams = known.in_force.iter();
        let mut endpoints = upstreams.flat_map(|upstream| &upstream.http().endpoints);
        endpoints.all(|endpoint| !is_name(endpoint) || known.names.is_known(&endpoint.host))
    }

    /// Returns the upstreams in force.
    pub(super) fn in_force(&self) -> Vec<Arc<UpstreamState>> {
        self.known().in_force.clone()
    }

    /// Looks up the names that are due, and forgets what nobody holds any more. Called a few times a
    /// second, on the control thread's own runtime.
    pub fn tick(self: &Arc<Self>) {
        let now = self.clock.now();
        let mut known = self.known();
        let known = &mut *known;
        let mut hosts = HashMap::<&str, Duration>::new();
        for upstream in &known.in_force {
            let http = upstream.http();
            if http.health.is_none() {
                for member in &*upstream.members().list {
                    member.state.assume_healthy();
                }
            }
            self.show_available(upstream, now);
            for endpoint in http.endpoints.iter().filter(|endpoint| is_name(endpoint)) {
                let every = hosts.entry(&endpoint.host).or_insert(http.resolve_every);
                *every = http.resolve_every.min(*every);
            }
        }
        known.names.retain(|host| hosts.contains_key(host));
        known.states.retain(|_, state| state.strong_count() > 0);
        known.counts.retain(|_, counts| counts.strong_count() > 0);
        known.retired.retain(|old| old.strong_count() > 0);
        self.metrics.forget_endpoints();
        for (host, every) in hosts {
            if known.names.begin(host, every, now) {
                let looked_up = known.resolver.look_up(host);
                tokio::task::spawn_local(look_up(Arc::clone(self), host.into(), looked_up));
            }
        }
    }

    /// Notes what a name resolves to, or why it does not.
    fn resolved(&self, host: &str, found: Result<Vec<IpAddr>, Box<str>>) {
        let mut known = self.known();
        let known = &mut *known;
        if !known.names.note(host, found, self.clock.now()) {
            return;
        }
        let mut upstreams = known.in_force.clone();
        upstreams.extend(known.retired.iter().filter_map(Weak::upgrade));
        for upstream in upstreams {
            let http = upstream.http();
            if http
                .endpoints
                .iter()
                .any(|endpoint| &*endpoint.host == host)
            {
                upstream.replace(known.members(&upstream.upstream, http, &self.metrics));
            }
        }
    }

    fn show_available(&self, upstream: &UpstreamState, now: Timestamp) {
        let members = upstream.members();
        let available = members
            .list
            .iter()
            .filter(|list| list.state.is_available(now));
        (self.metrics.upstream(upstream.name())).set_available(available.count());
    }

    fn known(&self) -> MutexGuard<'_, KnownEndpoint> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a look-up and notes its result. If it never ends, this task waits for ever, but nothing else does.
async fn look_up(
    endpoints: Arc<Endpoints>,
    host: Box<str>,
    looked_up: impl Future<Output = Result<Vec<IpAddr>, Box<str>>>,
) {
    let found = looked_up.await;
    endpoints.resolved(&host, found);
}

impl KnownEndpoint {
    /// Finds or makes the states of an upstream's endpoints, as far as their names are resolved.
    fn members(
        &mut self,
        upstream: &Arc<Upstream>,
        http: &HttpUpstream,
        metrics: &Metrics,
    ) -> Members {
        let mut list = Vec::new();
        let mut unresolved = None;
        for endpoint in &http.endpoints {
            let at = |address| SocketAddr::new(address, endpoint.port);
            let mut places = Vec::new();
            if let Ok(address) = endpoint.host.parse::<IpAddr>() {
                places.push((None, vec![at(address)]));
            } else if is_localhost(&endpoint.host) {
                places.push((None, LOOPBACK.map(at).to_vec()));
            } else {
                let resolved = self.names.addresses(&endpoint.host);
                let addresses = resolved.addresses.iter();
                places.extend(addresses.map(|address| (Some(*address), vec![at(*address)])));
                if places.is_empty() {
                    unresolved.get_or_insert(Unresolved {
                        endpoint: named(endpoint).into(),
                        error: resolved.error,
                    });
                }
            }
            for (address, addresses) in places {
                let state = self.state(&upstream.name, endpoint, address, addresses, metrics);
                list.push(Member {
                    state,
                    weight: endpoint.weight,
                });
            }
        }
        Members {
            list: list.into(),
            unresolved,
        }
    }

    fn state(
        &mut self,
        upstream: &Arc<str>,
        endpoint: &Endpoint,
        address: Option<IpAddr>,
        addresses: Vec<SocketAddr>,
        metrics: &Metrics,
    ) -> Arc<EndpointState> {
        let authority = named(endpoint);
        let key = (
            Arc::clone(upstream),
            endpoint.scheme,
            authority.clone().into(),
            address,
        );
        if let Some(state) = self.states.get(&key).and_then(Weak::upgrade) {
            return state;
        }
        let name: Arc<str> = match address {
            Some(address) => format!("{authority} ({address})").into(),
            None => authority.into(),
        };
        let metrics = metrics.endpoint(upstream, &name);
        let state = EndpointState::new(upstream, name, endpoint, addresses, metrics);
        let state = Arc::new(state);
        self.states.insert(key, Arc::downgrade(&state));
        state
    }

    fn counts(&mut self, upstream: &Arc<str>) -> Arc<Counts> {
        if let Some(counts) = self.counts.get(upstream).and_then(Weak::upgrade) {
            return counts;
        }
        let counts = Arc::<Counts>::default();
        self.counts
            .insert(Arc::clone(upstream), Arc::downgrade(&counts));
        counts
    }
}

/// Returns the name of an endpoint: host and port.
fn named(endpoint: &Endpoint) -> String {
    format!("{}:{}", endpoint.authority.host(), endpoint.port)
}

/// Whether an endpoint's host has to be resolved.
fn is_name(endpoint: &Endpoint) -> bool {
    !is_localhost(&endpoint.host) && endpoint.host.parse::<IpAddr>().is_err()
}

/// Whether a host is this machine, whatever a resolver would answer (RFC 6761, section 6.3).
fn is_localhost(host: &str) -> bool {
    host.trim_end_matches('.').eq_ignore_ascii_case("localhost")
}

/// The addresses of `localhost`, which are one endpoint: the first to accept is used.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
