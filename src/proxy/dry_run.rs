//! Phases 1 to 3 of a journey, for a request that nobody has sent: they show what would become of it.
//!
//! It calls what a journey calls, in the same order, and stops before anything is decided, recorded or forwarded.
//! What only a real connection could tell is assumed to be in order: that the client's certificate is still accepted,
//! and that the host is served on the connection.

use std::cell::RefCell;
use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderMap, Method};

use super::admitted::admitted;
use super::check::check;
use super::connection_facts::ConnectionFacts;
use super::cors;
use super::refusal::Refusal;
use super::request_headers::{Arrived, after_route, before_route};
use super::routing::{find_route, looked_up};
use crate::clock::Timestamp;
use crate::cost::{Decimal, Numbers};
use crate::index::RouteIndex;
use crate::limiter::{Limiter, Preview, Reserve};
use crate::request::{self, Facts, Host, target, upgrade};
use crate::snapshot::{AppliedPolicy, Route};

/// A request that is asked about, and the circumstances in which it would come.
#[derive(Clone, Copy)]
pub(crate) struct DryRun<'r> {
    /// The connection that the request would come by.
    pub(crate) sent_by: ConnectionFacts<'r>,
    /// The limiter that would decide the request.
    pub(crate) limiter: Limiter<'r>,
    /// The request's body, as its head announces it.
    pub(crate) body: AnnouncedBody,
    /// When the request would come.
    pub(crate) now: Timestamp,
}

/// A request's body, as its head announces it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnnouncedBody {
    /// Whether there is a body.
    pub(crate) is_present: bool,
    /// Length of the body, if it is announced.
    pub(crate) bytes: Option<u64>,
}

/// What a dry run finds, as far as the request gets.
#[derive(Default)]
pub(crate) struct Course<'s> {
    /// Address of the request's client.
    pub(crate) client: Option<IpAddr>,
    /// The host, in the spelling that hosts are compared in.
    pub(crate) host: Option<Host>,
    /// The path, normalised.
    pub(crate) path: Option<String>,
    /// Method and headers that routes were compared with; for a preflight, those that it announces.
    pub(crate) looked_up: Option<(Method, HeaderMap)>,
    /// The route that takes it.
    pub(crate) route: Option<RouteIndex>,
    /// Whether it is a preflight that policies for preflights decide.
    pub(crate) is_preflight: bool,
    /// Whether the page that sends the request may read the gateway's own answers.
    pub(crate) is_readable_by_page: bool,
    /// The path that is forwarded.
    pub(crate) forwarded: Option<String>,
    /// The plan of the policies: what they would ask of the store.
    pub(crate) preview: Option<Preview<'s>>,
}

impl Course<'_> {
    /// Begins the course of a request from this client.
    pub(super) fn of(client: Option<IpAddr>) -> Self {
        Self {
            client,
            ..Self::default()
        }
    }
}

impl<'r> DryRun<'r> {
    /// Takes a request that has just arrived through phases 1 to 3, and notes in `course` what is found. Once its
    /// client is known, `identified` is given the facts that name it, and the policies that apply.
    ///
    /// # Errors
    /// The refusal, if the request is refused before any quota is asked.
    pub(crate) fn run(
        &self,
        head: &mut Parts,
        course: &mut Course<'r>,
        identified: impl FnOnce(&Facts<'_>, &[AppliedPolicy]),
    ) -> Result<(), Refusal> {
        let client = self.sent_by.client(&head.headers);
        course.client = client;
        let seen = check(&self.sent_by, head)?;
        let (target, latest_host) = (head.uri.clone(), RefCell::default());
        let arrived = before_route(&self.sent_by, head, &target, seen, client, &latest_host)?;
        self.run_arrived(head, &arrived, course, identified)
    }

    /// As [`run`](Self::run), for a request whose head has already been through [`before_route`];
    /// `course` names its client.
    pub(super) fn run_arrived(
        &self,
        head: &mut Parts,
        arrived: &Arrived,
        course: &mut Course<'r>,
        identified: impl FnOnce(&Facts<'_>, &[AppliedPolicy]),
    ) -> Result<(), Refusal> {
        // 1 Route.
        let (snapshot, target) = (self.sent_by.snapshot, std::mem::take(&mut head.uri));
        let host = request::host(&target, &head.headers, head.version);
        let host = &*course.host.insert(host.map_err(|_| Refusal::bad_host())?);
        let path = target::normalise(&target).map_err(|_| Refusal::bad_path())?;
        course.path = Some(path.as_str().to_owned());
        let has_body = || self.body.is_present;
        course.looked_up = Some(looked_up(snapshot, (host, head, &path), has_body));
        let found = find_route(snapshot, (host, head, &path), has_body, || false);
        let (found, preflight) = found?;
        let route = &snapshot.routes[found.route];
        course.route = Some(found.route);
        course.is_preflight = preflight.is_some();
        course.is_readable_by_page = cors::page_origin(route, &head.headers).is_some();
        after_route(&self.sent_by, route, arrived, &mut head.headers)?;
        // 2 Identify.
        (route.check_reads(&head.headers, target.query(), &arrived.joined))
            .map_err(|_| Refusal::ambiguous_client())?;
        let claims = self.sent_by.claims(route, &head.headers, || self.now);
        let facts = Facts {
            client: course.client,
            prefixes: self.sent_by.listener.identity.prefixes,
            headers: &head.headers,
            host,
            method: &head.method,
            route_name: &route.name,
            path: path.as_str(),
            query: target.query(),
            claims: claims.as_deref(),
            client_cert: self.sent_by.certificate.map(|one| &*one.sha256),
            found: &found,
            router: &snapshot.router,
        };
        let forwarded = target::changed(&target, &path, &route.path_change, &found);
        let forwarded = forwarded.map_err(|_| Refusal::bad_path())?;
        course.forwarded = Some(forwarded.into_owned());
        identified(&facts, preflight.unwrap_or(&route.policies));
        // 3 Plan.
        let is_upgrade = upgrade::asked(head, self.body.is_present).is_some();
        let is_too_large = self.is_too_large(route);
        let preview = self.plan(
            route,
            preflight.filter(|_| !is_too_large),
            &facts,
            is_upgrade,
        );
        let preview = course.preview.insert(preview);
        if let Some(refused) = preview.refused() {
            admitted(snapshot, preview.decided(), refused)?;
        }
        if is_too_large {
            return Err(Refusal::body_too_large());
        }
        Ok(())
    }

    fn is_too_large(&self, route: &Route) -> bool {
        let bytes_max = self.sent_by.body_bytes_max(route);
        (bytes_max.zip(self.body.bytes)).is_some_and(|(bytes_max, bytes)| bytes > bytes_max)
    }

    fn plan(
        &self,
        route: &Route,
        preflight: Option<&[AppliedPolicy]>,
        facts: &Facts<'_>,
        is_upgrade: bool,
    ) -> Preview<'r> {
        let limiter = &self.limiter;
        if let Some(policies) = preflight {
            return limiter.preview_preflight(policies, &route.policies, facts);
        }
        let mut numbers = Numbers::default();
        let reserve = match &route.bodies {
            None => None,
            Some(bodies) if bodies.reads_requests && !is_upgrade => {
                numbers.request_bytes = self.body.bytes.map(Decimal::from);
                Some(Reserve::Unread(&numbers))
            }
            Some(_) => Some(Reserve::Read(&numbers)),
        };
        limiter.preview(&route.policies, facts, reserve)
    }
}
