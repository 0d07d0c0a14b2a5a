//! Phase 5 of the journey: the upstream answers, or it is noted why it does not.

use std::rc::Rc;

use http::header::{Entry, LOCATION};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};

use super::content::Content;
use super::downstream::body::RequestBody;
use super::downstream::body_error::RequestBodyError;
use super::forwarded::is_over_tls;
use super::journey_state::{Journey, Stop};
use super::refusal::Refusal;
use super::upstream::{
    self, ConnectError, ForwardError, ForwardOptions, UpstreamAnswer, UpstreamBody,
    UpstreamFailure, UpstreamMeter, builtin,
};
use crate::proxy::wire::outgoing::Outgoing;
use crate::proxy::wire::request_head::CommonFields;
use crate::request::stripped_prefix::StrippedPrefix;
use crate::request::target::PathChange;
use crate::request::{host, target};
use crate::snapshot::{HttpUpstream, Route, UpstreamKind};

impl Journey<'_> {
    /// Returns the request's body as the upstream sees it.
    fn outgoing_body(&mut self) -> RequestBody {
        if self.upgrade.is_some() {
            // What the client sends after its head is for the tunnel.
            return RequestBody::empty(self.exchange.request().clone());
        }
        let mut body = self.body.take().expect("the body is forwarded once");
        body.keep_out(&self.live.snapshot.decisive_headers);
        body
    }

    /// Reads the body of a request that the gateway answers itself.
    pub(super) async fn drain(&mut self) {
        if let Some(body) = self.body.take() {
            Box::pin(body.drain()).await;
        }
    }

    /// Answers with what an upstream would be sent.
    fn echo(&mut self, head: &mut Parts, target: &Uri, path: &str) -> Response<Content> {
        let mut body = self.outgoing_body();
        body.ask_for();
        let mut request = Request::new(body);
        *request.method_mut() = std::mem::take(&mut head.method);
        *request.uri_mut() = target::outgoing(target, path);
        *request.headers_mut() = std::mem::take(&mut head.headers);
        builtin::echo(request).map(Content::Builtin)
    }

    /// Redirects the client to what it asked for, over TLS.
    async fn redirect_https(
        &mut self,
        head: &Parts,
        target: &Uri,
    ) -> Result<Response<Content>, Stop> {
        let location = over_https(head, target, self.client.tls.is_some())?;
        self.drain().await;
        Ok(builtin::redirect(location).map(Content::Builtin))
    }

    fn forward_options(&self, route: &Route, hash: Option<u64>) -> ForwardOptions {
        ForwardOptions {
            response_timeout: route.response_timeout,
            body_timeout: route.body_timeout,
            host: if route.preserve_host {
                upstream::HostField::Client
            } else {
                upstream::HostField::Endpoint
            },
            is_upgrade: self.upgrade.is_some(),
            hash,
        }
    }

    /// Phase 5: lets the upstream answer. It gets `target`, the target that came, with `path` in place of its own path.
    ///
    /// What waits is boxed, so that hyper does not need room for it with every request, including
    /// refused ones.
    pub(super) async fn forward(
        &mut self,
        route: &Route,
        head: &mut Parts,
        target: &Uri,
        path: &str,
        hash: Option<u64>,
        common: Option<Rc<CommonFields>>,
    ) -> Result<Response<Content>, Stop> {
        let upstream = &self.live.snapshot.upstreams[route.upstream];
        let http = match &upstream.kind {
            UpstreamKind::Echo => return Ok(self.echo(head, target, path)),
            UpstreamKind::Status(status) => {
                self.drain().await;
                return Ok(builtin::status(*status).map(Content::Builtin));
            }
            UpstreamKind::RedirectHttps => return self.redirect_https(head, target).await,
            UpstreamKind::Usage => unreachable!("it is answered before its head is changed"),
            UpstreamKind::Http(http) => http,
        };
        let body = self.outgoing_body();
        let upstream = self.live.upstreams[route.upstream].as_ref();
        let upstream = upstream.expect("it has endpoints");
        let terms = self.forward_options(route, hash);
        let worker = &self.client.worker;
        let meter = UpstreamMeter {
            metrics: &self.live.handles.upstreams[route.upstream],
            worker: worker.index,
        };
        let (method, headers) = (
            std::mem::take(&mut head.method),
            std::mem::take(&mut head.headers),
        );
        let mut request = Outgoing::new(method, target::outgoing(target, path), headers, body);
        let id = common.is_some().then(|| self.request_id()).flatten();
        request.set_common(common, id);
        if let Some(trace) = &mut self.exchange.record.trace {
            let now = worker.process.clock.now();
            trace.forwarded(now, &request.head, &self.live.snapshot);
        }
        let (attempts, client) = (&self.exchange.attempts, self.exchange.request());
        request.interim = client.interim_sink();
        let stripped = match &route.path_change {
            // Sending may use up the head.
            PathChange::Strip(prefix) => Some((prefix, request.host().cloned())),
            _ => None,
        };
        let pools = &worker.pools;
        let sent = upstream::send(pools, upstream, &mut request, &terms, meter, attempts);
        let response = client.unless_gone(Box::pin(sent)).await;
        match response {
            Some(Ok(UpstreamAnswer::Body(response))) => {
                if response.status().is_success() && self.is_tunnel() {
                    // Over HTTP/2, a success would tell the client that the tunnel is open.
                    return Err(Refusal::bad_response().into());
                }
                self.exchange.request().answer();
                let mut answer = streaming(response);
                if let Some((prefix, host)) = stripped {
                    self.give_back(prefix, host.as_ref(), answer.headers_mut());
                }
                Ok(answer)
            }
            Some(Ok(UpstreamAnswer::Switched(response))) => {
                Ok(response.map(|switched| Content::Switched(Box::new(switched))))
            }
            Some(Err(failure)) => Err(self.failed(http, failure)),
            None => Err(Stop::Gone),
        }
    }

    /// Puts the prefix that the route strips back into the paths that the origin's Location fields name. `host` is
    /// the client's Host field.
    fn give_back(
        &self,
        prefix: &StrippedPrefix,
        host: Option<&HeaderValue>,
        headers: &mut HeaderMap,
    ) {
        let Entry::Occupied(mut locations) = headers.entry(LOCATION) else {
            return;
        };
        let endpoint = self.exchange.attempts.authority();
        for location in locations.iter_mut() {
            if let Some(below) = prefix.restore_in_location(location, endpoint.as_ref(), host) {
                *location = below;
            }
        }
    }

    /// Refuses a request that its upstream did not answer, and notes why.
    fn failed(&mut self, upstream: &HttpUpstream, failure: UpstreamFailure) -> Stop {
        let refusal = match &failure.error {
            ForwardError::Full => Refusal::upstream_full(),
            ForwardError::NoEndpoint(_) => {
                Refusal::no_endpoint().after(upstream.retry_after().into())
            }
            ForwardError::Connect(ConnectError::NoDescriptors { .. }) => Refusal::no_descriptors(),
            ForwardError::Connect(_) => Refusal::connect_failed(),
            ForwardError::Timeout => Refusal::response_timeout(),
            ForwardError::BadResponse(_) => Refusal::bad_response(),
            ForwardError::ClientBody(_) => {
                return match failure.error.request_error() {
                    Some(RequestBodyError::TooLarge) => Refusal::body_too_large().into(),
                    Some(RequestBodyError::TimedOut) => Refusal::request_body_timeout().into(),
                    Some(RequestBodyError::Malformed) => Refusal::bad_framing().into(),
                    Some(RequestBodyError::Aborted) | None => Stop::Gone,
                };
            }
        };
        self.exchange.record.failed(failure);
        refusal.into()
    }
}

/// Makes an answer of an origin's response, whose head is moved out; the rest stays in its box.
fn streaming(mut response: Box<Response<UpstreamBody>>) -> Response<Content> {
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    let extensions = std::mem::take(response.extensions_mut());
    let mut answer = Response::new(Content::Upstream(response));
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    *answer.extensions_mut() = extensions;
    answer
}

/// Returns the `https` URL of what a client asked for without TLS.
fn over_https(head: &Parts, target: &Uri, is_tls: bool) -> Result<HeaderValue, Refusal> {
    if is_over_tls(&head.headers, is_tls) {
        // The client would be sent back to where it already is.
        return Err(Refusal::request_loop());
    }
    let host = host(target, &head.headers, head.version);
    let host = host.ok().filter(|host| !host.is_empty());
    Ok(builtin::https(&host.ok_or_else(Refusal::bad_host)?, target))
}
