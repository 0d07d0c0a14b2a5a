//! The request's journey, phase by phase; the phases hand each other typed results.
//!
//! 1 route, 2 identify, 3 plan and 4 decide, 5 forward, 6 settle, 7 annotate, 8 record. A phase
//! that refuses returns a [`Refusal`]; it becomes a response in one place, [`run`].

use std::pin::pin;
use std::rc::Rc;

use http::header::{CONNECTION, EXPECT, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use http_body::Body as _;
use http_body_util::Full;

use super::admitted::admitted;
use super::annotate::{annotate, expose};
use super::body::ResponseBody;
use super::check::{check, is_last};
use super::client::Client;
use super::content::Content;
use super::cors;
use super::debug;
use super::delay::{Delayed, delay};
use super::downstream::body::RequestBody;
use super::downstream::request::{IncomingBody, RequestState};
use super::exchange::Exchange;
use super::journey_state::{Journey, Stop};
use super::refusal::{Afterwards, Dialect, Refusal};
use super::request_headers::{after_route, before_forward, before_route};
use super::trace::{RequestTrace, TracedDecision};
use super::tunnel;
use crate::clock::Micros;
use crate::index::RouteIndex;
use crate::limiter::Admission;
use crate::request::{self, Facts, target, upgrade};
use crate::snapshot::{AppliedPolicy, Route, UpstreamKind};

/// The client left before it was answered; its connection ends without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the client left")]
pub(crate) struct ClientGone;

/// Takes one request from its head to the head of its answer; the body follows by itself.
///
/// # Errors
/// If the client has left.
#[expect(
    clippy::manual_async_fn,
    reason = "an async function would have room for its arguments twice"
)]
pub(crate) fn run(
    client: Rc<Client>,
    state: RequestState,
    mut head: Parts,
    incoming: IncomingBody,
) -> impl Future<Output = Result<Response<ResponseBody>, ClientGone>> {
    async move {
        let guard = state.begin();
        let live = client.worker.live();
        let (dialect, version) = (Dialect::of(&head.headers), head.version);
        let has_body = !incoming.is_end_stream();
        let is_awaited = has_body && !(head.headers.contains_key(EXPECT) || is_last(&head));
        let asked = asked_upgrade(&state, &head, has_body);
        let mut body = Some(RequestBody::new(incoming, state, is_awaited));
        let mut exchange = Exchange::begin(guard, &client, &live, &head);
        let mut journey = Journey {
            client: &client,
            live: &live,
            limiter: client.worker.limiter(&live),
            listener: &live.snapshot.listeners[client.listener],
            exchange: &mut exchange,
            body: &mut body,
            route: None,
            page_origin: None,
            upgrade: asked,
        };
        let travelled = journey.travel(&mut head).await;
        let (route, page_origin, upgrade) = (journey.route, journey.page_origin, journey.upgrade);
        let mut response = match travelled {
            Ok(response) => {
                exchange.answered(&response);
                response
            }
            Err(Stop::Gone) => return Err(ClientGone),
            Err(Stop::Refused(refusal)) => {
                settle_refusal(&refusal, &mut exchange, body.take()).await;
                let response = refusal.into_response(dialect, std::mem::take(&mut head.headers));
                response.map(|body| Content::Refusal(Full::new(body)))
            }
        };
        set_connection_field(&mut response, &exchange, version);
        let mut scratch = client.worker.scratch.borrow_mut();
        if response.body().is_own() {
            cors::allow(response.headers_mut(), &live.snapshot, route, page_origin);
        }
        annotate_answer(response.headers_mut(), route, &exchange, &mut scratch);
        Ok(match response.into_parts() {
            (head, Content::Switched(origin)) => {
                tunnel::open(*origin, head, upgrade, body, &client, exchange)
            }
            (head, content) => Response::from_parts(head, ResponseBody::new(content, exchange)),
        })
    }
}

/// Returns the protocol that a request asks to switch to. The field is read only if its connection can switch.
fn asked_upgrade(state: &RequestState, head: &Parts, has_body: bool) -> Option<HeaderValue> {
    let asked = || upgrade::asked(head, has_body);
    state.may_switch().then(asked).flatten()
}

/// Settles what a refused request was charged, and reads its body if the connection is to carry further requests.
async fn settle_refusal(refusal: &Refusal, exchange: &mut Exchange, body: Option<RequestBody>) {
    exchange.refused(refusal);
    let request = exchange.request();
    let closes = refusal.afterwards() == Afterwards::Close;
    // After an answer that closes the connection, the rest of the body is discarded as it comes.
    let is_needed = |body: &RequestBody| !body.is_end_stream() && (request.is_http2() || !closes);
    if let Some(body) = body.filter(is_needed) {
        body.drain().await;
    }
    if closes {
        exchange.request().expect_more();
    }
}

/// Sets the Connection field of an answer over HTTP/1: `close` if the connection cannot carry another request, and
/// `upgrade` if the answer is a 426 with an Upgrade field.
fn set_connection_field(response: &mut Response<Content>, exchange: &Exchange, version: Version) {
    let request = exchange.request();
    // An answer that does not wait for the request's body usually ends before the body does.
    let leaves_body = request.is_more_expected() && !response.body().is_echo();
    // Only the end of the connection tells a client of HTTP/1.0 where an answer without a length ends.
    let ends_answer = version == Version::HTTP_10 && !response.body().has_length();
    if leaves_body || ends_answer || request.is_ending() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    if ends_answer {
        request.end_by_close();
    }
    if response.status() == StatusCode::UPGRADE_REQUIRED && response.headers().contains_key(UPGRADE)
    {
        let upgrade = HeaderValue::from_static("upgrade");
        response.headers_mut().append(CONNECTION, upgrade);
    }
    if version == Version::HTTP_10 && response.headers().contains_key(CONNECTION) {
        // Otherwise hyper says `keep-alive` beside `close` to a client that asked for it.
        *response.version_mut() = version;
    }
}

/// Phase 7: changes the fields of an answer as its route says, and adds what the limits say.
fn annotate_answer(
    headers: &mut HeaderMap,
    route: Option<RouteIndex>,
    exchange: &Exchange,
    scratch: &mut Vec<u8>,
) {
    let live = &exchange.record.live;
    let snapshot = &live.snapshot;
    if let Some((name, id)) = live.request_id.as_ref().zip(exchange.id.as_ref()) {
        headers.insert(name, id.clone());
    }
    if let Some(changes) = route.and_then(|route| live.changes(route)) {
        changes.response.apply(headers);
    }
    let style = snapshot.general.ratelimit_headers;
    annotate(headers, style, exchange.decided.infos(snapshot), scratch);
    expose(headers, scratch);
    if exchange.is_debugged {
        debug::set_decision(headers, exchange, scratch);
    }
}

impl Journey<'_> {
    /// Phases 1 to 5.
    async fn travel(&mut self, head: &mut Parts) -> Result<Response<Content>, Stop> {
        let snapshot = &self.live.snapshot;
        let client = self.resolve_client(&head.headers);
        let (connection, latest_host) = (self.connection(), &self.client.host);
        // 1 Route.
        let (seen, target) = (check(&connection, head)?, std::mem::take(&mut head.uri));
        let arrived = before_route(&connection, head, &target, seen, client, latest_host)?;
        let host = (latest_host.borrow_mut())
            .host(&target, &head.headers, head.version)
            .map_err(|_| Refusal::bad_host())?;
        let path = target::normalise(&target).map_err(|_| Refusal::bad_path())?;
        self.exchange.record.asked(&host);
        self.check_tls(&host)?;
        let (found, preflight) = self.find_route(&host, head, &path)?;
        let route = &snapshot.routes[found.route];
        self.route = Some(found.route);
        self.page_origin = cors::page_origin(route, &head.headers);
        self.exchange.record.routed(found.route);
        after_route(&connection, route, &arrived, &mut head.headers)?;
        let is_too_large = self.bound_body(connection.body_bytes_max(route));
        self.check_upgrade(route)?;
        // 2 Identify.
        let query = target.query();
        (route.check_reads(&head.headers, query, &arrived.joined))
            .map_err(|_| Refusal::ambiguous_client())?;
        let now = || self.client.worker.process.clock.wall();
        let claims = connection.claims(route, &head.headers, now);
        let facts = Facts {
            client,
            prefixes: self.listener.identity.prefixes,
            headers: &head.headers,
            host: &host,
            method: &head.method,
            route_name: &route.name,
            path: path.as_str(),
            query,
            claims: claims.as_deref(),
            client_cert: self
                .client
                .certificate()
                .map(|certificate| &*certificate.sha256),
            found: &found,
            router: &snapshot.router,
        };
        let forwarded = target::changed(&target, &path, &route.path_change, &found);
        let forwarded = forwarded.map_err(|_| Refusal::bad_path())?;
        (self.exchange.record).identified(preflight.unwrap_or(&route.policies), &facts);
        if is_too_large {
            return Err(self.refuse_too_large(route, &facts).into());
        }
        // 3 Plan and 4 decide.
        self.decide(route, preflight, &facts).await?;
        // 5 Forward.
        if snapshot.upstreams[route.upstream].kind == UpstreamKind::Usage {
            return Box::pin(self.usage(head, &target, &arrived, client)).await;
        }
        let hash = snapshot.upstreams[route.upstream].hash(&facts);
        let common = before_forward(self, route, &arrived, &mut head.headers, client);
        (self.forward(route, head, &target, &forwarded, hash, common)).await
    }

    /// Phases 2 to 4: lets the limiter decide the request, which then waits for its turn if a leaky bucket delays it.
    /// If the request is a preflight, `preflight` has the policies that decide it in place of the route's.
    async fn decide(
        &mut self,
        route: &Route,
        preflight: Option<&[AppliedPolicy]>,
        facts: &Facts<'_>,
    ) -> Result<(), Stop> {
        let applied = preflight.unwrap_or(&route.policies);
        let refused = match (&route.bodies, preflight) {
            (_, Some(_)) => {
                let decided = &mut self.exchange.decided;
                (self.limiter).refuse_blocked(&route.policies, facts, decided)
            }
            (Some(bodies), None) => self.read_request(route, bodies, facts).await?,
            (None, None) => None,
        };
        let Self {
            client, exchange, ..
        } = self;
        let (request, limiter) = (exchange.request().clone(), self.limiter);
        let numbers = exchange.reading.as_ref().map(|reading| &reading.numbers);
        if let Some(trace) = &mut exchange.record.trace {
            trace.asked(client.worker.process.clock.now());
        }
        let decided = &mut exchange.decided;
        let admission = if let Some(refused) = refused {
            refused
        } else {
            let deciding =
                pin!(limiter.decide(applied, facts, &client.partition, numbers, decided));
            request.unless_gone(deciding).await.ok_or(Stop::Gone)?
        };
        tracing::debug!(route = &*route.name, ?admission, "request decided");
        if self.may_be_traced(admission) {
            self.trace_decision(applied, facts, admission);
        }
        let Self { client, .. } = self;
        if request.is_http2() && request::is_trusted_peer(client.peer, &self.listener.identity) {
            // A trusted proxy passes on the resets of its own clients, and their requests have been charged.
            request.excuse_leaving();
        }
        match admitted(&self.live.snapshot, &self.exchange.decided, admission)? {
            Micros(0) => Ok(()),
            wait => self.delay(wait).await,
        }
    }

    /// Whether anybody watches requests with this outcome, or watched when this request arrived.
    fn may_be_traced(&self, admission: Admission) -> bool {
        let is_admitted = matches!(admission, Admission::Admitted { .. });
        let traces = &self.client.worker.process.traces;
        self.exchange.record.trace.is_some() || traces.are_watched(is_admitted)
    }

    /// Notes the decision in the request's trace, for those who watch.
    #[cold]
    fn trace_decision(
        &mut self,
        applied: &[AppliedPolicy],
        facts: &Facts<'_>,
        admission: Admission,
    ) {
        let process = &self.client.worker.process;
        let trace = self.exchange.record.trace.take();
        let Some(route) = self.route else {
            return;
        };
        let decision = TracedDecision {
            limiter: self.limiter,
            sent_by: self.connection(),
            route,
            applied,
            facts,
            latest: &self.client.partition,
            decided: &self.exchange.decided,
            admission,
            clock: &process.clock,
        };
        self.exchange.record.trace = RequestTrace::decided(trace, &process.traces, &decision);
    }

    /// Holds an admitted request until its turn.
    async fn delay(&mut self, wait: Micros) -> Result<(), Stop> {
        let Self {
            client, exchange, ..
        } = self;
        exchange.record.delayed();
        // Boxed, so that requests that are not delayed do not need room for it.
        let delayed_max = self.listener.max_delayed;
        let delayed = Box::pin(delay(client, exchange.request(), delayed_max, wait)).await;
        match delayed {
            Delayed::Released => {
                exchange.record.delay_ended();
                Ok(())
            }
            Delayed::Gone => Err(Stop::Gone),
            Delayed::Full => {
                exchange.record.not_delayed();
                let store = &client.worker.store;
                exchange.decided.give_back(store);
                Err(Refusal::delayed_full().into())
            }
        }
    }

    /// Bounds the request's body to `bytes_max`, if there is a maximum; says whether it is announced as longer.
    fn bound_body(&mut self, bytes_max: Option<u64>) -> bool {
        let Some((bytes_max, body)) = bytes_max.zip(self.body.as_mut()) else {
            return false;
        };
        body.bound(bytes_max);
        body.size_hint().lower() > bytes_max
    }

    /// Refuses a request whose body is too large, or instead because its client is unidentified or blocked.
    fn refuse_too_large(&mut self, route: &Route, facts: &Facts<'_>) -> Refusal {
        let (limiter, decided) = (self.limiter, &mut self.exchange.decided);
        let stranger =
            limiter.refuse_before_store(&route.policies, facts, &self.client.partition, decided);
        if let Some(admission) = stranger
            && self.may_be_traced(admission)
        {
            self.trace_decision(&route.policies, facts, admission);
        }
        let (snapshot, decided) = (&self.live.snapshot, &mut self.exchange.decided);
        let refusal = stranger.and_then(|refused| admitted(snapshot, decided, refused).err());
        refusal.unwrap_or_else(Refusal::body_too_large)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
