//! Active checks: each endpoint of an upstream with `health.path` is asked for that path at every interval.
//!
//! One [`Checker`] per process runs on the control thread, with its own connections, which carry one check each.
//! [`CHECKS_SET_ASIDE`] of them have reserved descriptors, so that checks go on when requests have taken all others.
//! Results are noted in the endpoints' states, which all workers read. Checks count towards no limit.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HOST, HeaderValue, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Empty;

use super::connect_error::ConnectError;
use super::connecting::{ConnectedOrigin, Freshness};
use super::dispatch::Dispatch;
use super::endpoints::{Endpoints, UpstreamState};
use super::error::ForwardError;
use super::origin::{AlpnOffer, Origin};
use super::pool::Pools;
use super::{Attempts, ForwardOptions, HostField, UpstreamAnswer, UpstreamMeter};
use crate::clock::Clock;
use crate::metrics::{Metrics, WorkerIndex};
use crate::proxy::wire::deadline::Sweep;
use crate::proxy::wire::outgoing::Outgoing;
use crate::proxy::wire::sockets::Sockets;
use crate::snapshot::Health;

/// Checks the endpoints of the upstreams in force.
pub struct Checker {
    endpoints: Arc<Endpoints>,
    metrics: Arc<Metrics>,
    clock: Clock,
    sweep: Rc<Sweep>,
    pools: Pools,
    /// Sockets that are reserved for checks.
    set_aside: Arc<Sockets>,
    worker: WorkerIndex,
}

/// How many checks may run at once without taking sockets from requests.
pub const CHECKS_SET_ASIDE: usize = 32;

/// Why a check failed.
enum CheckError {
    Connect(ConnectError),
    Forward(ForwardError),
    Status(StatusCode),
    Elapsed,
}

impl Checker {
    /// Makes a checker of `endpoints`. Checks that find none of the reserved sockets free take from
    /// `sockets`.
    pub fn new(
        endpoints: Arc<Endpoints>,
        metrics: Arc<Metrics>,
        clock: Clock,
        sockets: Arc<Sockets>,
    ) -> Rc<Self> {
        let sweep = Rc::new(Sweep::new(clock.clone()));
        Rc::new(Self {
            pools: Pools::new(Rc::clone(&sweep), clock.clone(), metrics.control(), sockets),
            set_aside: Arc::new(Sockets::for_origins(CHECKS_SET_ASIDE)),
            worker: metrics.control(),
            endpoints,
            metrics,
            clock,
            sweep,
        })
    }

    /// Begins the checks that are due; called a few times a second.
    pub fn tick(self: &Rc<Self>) {
        let now = self.clock.now();
        self.sweep.sweep();
        self.pools.sweep(now);
        for upstream in self.endpoints.in_force() {
            let Some(health) = &upstream.http().health else {
                continue;
            };
            for origin in self.pools.origins(&upstream).iter() {
                if origin.state.begin_check(health.interval, now) {
                    let (checker, origin) = (Rc::clone(self), Rc::clone(origin));
                    tokio::task::spawn_local(checker.check(Arc::clone(&upstream), origin));
                }
            }
        }
    }

    async fn check(self: Rc<Self>, upstream: Arc<UpstreamState>, origin: Rc<Origin>) {
        let Some(health) = &upstream.http().health else {
            return;
        };
        let deadline = self.pools.deadline();
        let asked = deadline.within(health.timeout, self.ask(&upstream, &origin, health));
        let result = asked.await.unwrap_or(Err(CheckError::Elapsed));
        origin.close_idle();
        match result {
            Err(CheckError::Connect(error)) if error.is_out_of_descriptors() => {
                // The endpoint was not reached, so the check says nothing about it.
                origin.state.end_check();
            }
            result => {
                let result = result.map_err(|error| error.cause());
                let failed = result.as_ref().err().map(|cause| &**cause);
                let now = self.clock.now();
                origin.state.checked(failed, health, now, self.worker);
            }
        }
    }

    /// Sends one check to an endpoint.
    async fn ask(
        &self,
        upstream: &Arc<UpstreamState>,
        origin: &Rc<Origin>,
        health: &Health,
    ) -> Result<(), CheckError> {
        let http = upstream.http();
        let room = (self.set_aside.take()).or_else(|| self.pools.try_socket_permit());
        let room = room.ok_or_else(|| CheckError::Connect(origin.no_descriptors()))?;
        let tcp = origin.connect(room).await.map_err(CheckError::Connect)?;
        let late = Cell::new(None);
        let opened = self
            .pools
            .open(origin, tcp, http, AlpnOffer::Any, &late)
            .await;
        let link = opened.map_err(CheckError::Connect)?;
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = health.path.clone().into();
        let agent = HeaderValue::from_static("tollgate");
        request.headers_mut().insert(USER_AGENT, agent);
        if let Some(host) = &health.host {
            request.headers_mut().insert(HOST, host.clone());
        }
        let metrics = self.metrics.upstream(upstream.name());
        let dispatch = Dispatch {
            pools: &self.pools,
            upstream,
            http,
            terms: &ForwardOptions {
                response_timeout: health.timeout,
                body_timeout: None,
                host: HostField::Client,
                is_upgrade: false,
                hash: None,
            },
            meter: UpstreamMeter {
                metrics: &metrics,
                worker: self.worker,
            },
            attempts: &Attempts::default(),
        };
        let connected = ConnectedOrigin {
            origin: Rc::clone(origin),
            link,
            freshness: Freshness::New,
        };
        let answered = dispatch
            .exchange(connected, &mut Outgoing::from(request))
            .await;
        let answer = answered.map_err(|failed| CheckError::Forward(failed.error))?;
        let status = match answer {
            UpstreamAnswer::Body(response) => response.status(),
            UpstreamAnswer::Switched(response) => response.status(),
        };
        if health.status.iter().any(|range| range.has(status)) {
            return Ok(());
        }
        Err(CheckError::Status(status))
    }
}

impl CheckError {
    /// Returns the cause in a few words, for the log.
    fn cause(&self) -> String {
        match self {
            Self::Connect(error) => error.cause(),
            Self::Forward(error) => error.cause(),
            Self::Status(status) => format!("status {}", status.as_u16()),
            Self::Elapsed => "no response in time".into(),
        }
    }
}
