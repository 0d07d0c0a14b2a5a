//! `builtin:usage`: a client asks what is left of its own quotas, and spends none of them.
//!
//! The query names a request, `?path=/v1/items&method=POST`, which takes the phases that it would take if
//! the client made it ([`dry_run`](super::dry_run)), with the headers and the address of this one. What its policies
//! tell clients is told here, in JSON and in RateLimit fields; policies in shadow and candidates are not
//! mentioned.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, Uri};
use serde_json::{Value, json};
use smallvec::SmallVec;

use super::annotate::annotate;
use super::content::Content;
use super::dry_run::{AnnouncedBody, Course, DryRun};
use super::journey_state::{Journey, Stop};
use super::refusal::Refusal;
use super::request_headers::Arrived;
use super::upstream::builtin;
use super::usage_cache::UsageAnswer;
use crate::clock::Micros;
use crate::fault::Reason;
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, PartitionId};
use crate::limiter::{Decided, LimitInfo, PeekedCost, PolicyResult, Preview};
use crate::metrics::PolicyOutcome;
use crate::request::{client_network, query_value};
use crate::snapshot::{PolicyMode, Snapshot};
use crate::store::PeekedCheck;

impl<'j> Journey<'j> {
    /// Phase 5 for `builtin:usage`: says what is left of the client's quotas for the request that the query names.
    pub(super) async fn usage(
        &mut self,
        head: &Parts,
        target: &Uri,
        arrived: &Arrived,
        client: Option<IpAddr>,
    ) -> Result<Response<Content>, Stop> {
        self.drain().await;
        let clock = &self.client.worker.process.clock;
        let mut asked = asked(head, target.query().unwrap_or_default())?;
        let mut course = Course::of(client);
        let dry_run = DryRun {
            sent_by: self.connection(),
            limiter: self.limiter,
            body: AnnouncedBody::default(),
            now: clock.wall(),
        };
        let planned = dry_run.run_arrived(&mut asked, arrived, &mut course, |_, _| ());
        let Some(mut preview) = course.preview else {
            return Err(planned.err().map_or_else(Refusal::no_route, refusal).into());
        };
        let peeked = self.peek_usage(&preview, client).await?;
        preview.decide(&self.limiter, &peeked);
        Ok(self.answer_usage(preview.decided()))
    }

    /// Asks the store what is left, at most once a second for each client.
    async fn peek_usage(
        &self,
        preview: &Preview<'j>,
        client: Option<IpAddr>,
    ) -> Result<SmallVec<[PeekedCheck; 4]>, Stop> {
        let quotas = preview.quotas(&self.limiter);
        let question = quotas.map(|quota| (quota.quota.series_id, quota.partition_id));
        let question: SmallVec<[(SeriesId, PartitionId); 4]> = question.collect();
        if question.is_empty() || preview.refused().is_some() {
            return Ok(SmallVec::new());
        }
        let process = &self.client.worker.process;
        let prefixes = self.listener.identity.prefixes;
        let client = client.map(|client| client_network(client, prefixes));
        match process
            .usage_cache
            .begin(client, &question, process.clock.now())
        {
            UsageAnswer::Same(answer) => Ok(answer.into_vec().into()),
            UsageAnswer::Later => Err(Refusal::usage_too_often().after(LATER).into()),
            UsageAnswer::New => {
                let peek = preview.peek(&self.client.worker.store, PeekedCost::Nothing);
                let peeked = self.exchange.request().unless_gone(Box::pin(peek)).await;
                let peeked = peeked.ok_or(Stop::Gone)?;
                process.usage_cache.note(client, &question, &peeked);
                Ok(peeked)
            }
        }
    }

    fn answer_usage(&self, decided: &Decided) -> Response<Content> {
        let snapshot = &self.live.snapshot;
        let policies = decided.policies.iter().enumerate();
        let told = policies.filter_map(|(of, policy)| told(snapshot, decided, of, policy));
        let body = format!("{}\n", json!({ "policies": told.collect::<Vec<_>>() }));
        let mut response = builtin::text(body).map(Content::Builtin);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            CACHE_CONTROL,
            HeaderValue::from_static("private, max-age=1"),
        );
        // Quotas that this request itself spends are told anyway, as with every answer.
        let own = |info: &LimitInfo<'_>| {
            let mut own = self.exchange.decided.infos(snapshot);
            own.any(|own| own.quota.items.name() == info.quota.items.name())
        };
        let infos: SmallVec<[LimitInfo<'_>; 4]> =
            decided.infos(snapshot).filter(|info| !own(info)).collect();
        let mut scratch = self.client.worker.scratch.borrow_mut();
        let style = snapshot.general.ratelimit_headers;
        annotate(headers, style, infos.iter().copied(), &mut scratch);
        response
    }
}

/// Makes the request that a query for usage is about.
fn asked(head: &Parts, query: &str) -> Result<Parts, Refusal> {
    let value = |name: &str| query_value(query, name).map_err(|_| Refusal::bad_usage_query());
    let bad = |_| Refusal::bad_usage_query();
    let path = value("path")?.filter(|path| path.starts_with(b"/"));
    let path = path.ok_or_else(Refusal::bad_usage_query)?;
    let method = value("method")?.unwrap_or(Cow::Borrowed(b"GET"));
    let (mut asked, ()) = Request::new(()).into_parts();
    asked.uri = PathAndQuery::try_from(&*path)
        .map(Uri::from)
        .map_err(|_| Refusal::bad_usage_query())?;
    asked.method = Method::from_bytes(&method).map_err(|_| Refusal::bad_usage_query())?;
    asked.version = head.version;
    asked.headers = head.headers.clone();
    if let Some(host) = value("host")? {
        let host = HeaderValue::from_bytes(&host).map_err(bad)?;
        asked.headers.insert(HOST, host);
    }
    Ok(asked)
}

/// Returns the refusal of a request for usage: a bad path, host or method of the named request is a bad query.
fn refusal(of_asked: Refusal) -> Refusal {
    match of_asked.reason() {
        Reason::BadPath | Reason::BadHost | Reason::BadMethodCase => Refusal::bad_usage_query(),
        _ => of_asked,
    }
}

/// Says what a policy tells its client; nothing if it is in shadow.
fn told(snapshot: &Snapshot, decided: &Decided, of: usize, result: &PolicyResult) -> Option<Value> {
    let policy = &snapshot.policies[result.policy];
    if policy.mode == Some(PolicyMode::Shadow) {
        return None;
    }
    let status = match result.outcome {
        PolicyOutcome::Unlimited => "unlimited",
        PolicyOutcome::Blocked => "blocked",
        PolicyOutcome::Unidentified => "unidentified",
        PolicyOutcome::Skipped => "skipped",
        _ => "limited",
    };
    let quotas = decided.infos_of(snapshot, of).map(|info| {
        let quota = &info.quota.quota;
        if quota.is_balance() {
            return json!({
                "credits": true,
                "remaining": info.decision.remaining,
                "debt": info.decision.debt,
            });
        }
        if quota.is_in_flight() {
            return json!({
                "in_flight": true,
                "limit": quota.limit,
                "remaining": info.decision.remaining,
            });
        }
        let mut said = json!({
            "limit": quota.limit,
            "remaining": info.decision.remaining,
            "reset": info.decision.reset.secs_ceil(),
        });
        match quota.algorithm {
            Algorithm::Calendar(calendar) => said["calendar"] = calendar.shape().unit.name().into(),
            _ => said["window"] = seconds(quota.window),
        }
        said
    });
    let mut said = json!({
        "name": &*policy.name,
        "status": status,
        "unit": &*policy.unit,
        "quotas": quotas.collect::<Vec<_>>(),
    });
    if result.penalty > Micros(0) {
        said["penalty"] = result.penalty.secs_ceil().into();
    }
    Some(said)
}

/// Returns a window in seconds, with decimals if it has any.
#[expect(
    clippy::cast_precision_loss,
    reason = "windows of parts of a second are short"
)]
fn seconds(window: Micros) -> Value {
    let second = Micros::from_secs(1).0;
    if window.0.is_multiple_of(second) {
        return Value::from(window.0 / second);
    }
    Value::from(window.0 as f64 / second as f64)
}

/// Time after which a client that asks too often may ask again.
const LATER: Micros = Micros::from_secs(1);
