//! `/api/usage`: which clients a policy refused most, which spend most, and which are nearest to a quota, as far as
//! this gateway has seen.

use std::cmp::Reverse;

use http::StatusCode;
use serde_json::{Value, json};

use super::time;
use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;
use crate::admin::state::AdminState;
use crate::clock::Clock;
use crate::keys::hex;
use crate::limit::PartitionId;
use crate::limiter::{CountedClient, CountedEvents, NearClient, TopClients};

/// A page of one policy's clients, as asked for.
struct UsagePage {
    policy: String,
    order: ClientOrder,
    offset: usize,
    limit: usize,
}

/// Order in which clients are listed.
#[derive(Clone, Copy)]
enum ClientOrder {
    Refused,
    Spent,
    Nearest,
}

/// Shows the top clients of each policy, or pages through those of one.
pub(in crate::admin) async fn usage(request: &AdminRequest) -> AdminReply {
    match UsagePage::of(request) {
        Ok(None) => super::shown(request, overview).await,
        Ok(Some(page)) => super::rendered(request, move |state| page.render(state)).await,
        Err(refused) => refused,
    }
}

/// Shows the first few clients of each policy.
fn overview(state: &AdminState) -> Value {
    let live = state.process.live();
    let policies = live.snapshot.policies.iter().zip(&live.top_clients);
    let used = policies.filter(|(policy, _)| policy.mode.is_some());
    let policies = used.map(|(policy, top)| {
        let first = |order: ClientOrder| order.clients(top, state, 0, FIRST).0;
        json!({
            "policy": *policy.name,
            "refused": first(ClientOrder::Refused),
            "spent": first(ClientOrder::Spent),
            "nearest": first(ClientOrder::Nearest),
        })
    });
    json!({ "policies": policies.collect::<Value>(), "notifications": notifications(state, usize::MAX) })
}

/// Shows the first few clients of all policies together: those that were refused most, and those that are nearest to a
/// quota.
pub(in crate::admin) fn top_clients(state: &AdminState, count: usize) -> Value {
    let (live, clock) = (state.process.live(), &state.process.clock);
    let policies = || live.snapshot.policies.iter().zip(&live.top_clients);
    let now = clock.now();
    let mut refused = Vec::new();
    let mut nearest = Vec::new();
    for (policy, top) in policies() {
        let counted = top.counted(CountedEvents::Refused, now).0.into_iter();
        refused.extend(counted.take(count).map(|one| (&policy.name, one)));
        let near = top.nearest(now).into_iter();
        nearest.extend(near.take(count).map(|one| (&policy.name, one)));
    }
    refused.sort_by_key(|(_, one)| Reverse(one.at_least));
    nearest.sort_by_key(|(_, one)| Reverse(one.used_permille));
    let of_policy = |mut client: Value, policy: &str| {
        client["policy"] = policy.into();
        client
    };
    let refused = refused.iter().take(count);
    let nearest = nearest.iter().take(count);
    json!({
        "refused": refused.map(|(policy, one)| of_policy(counted_client(one), policy)).collect::<Value>(),
        "nearest": nearest.map(|(policy, one)| of_policy(near_client(one, clock), policy)).collect::<Value>(),
    })
}

/// Shows the latest few clients that have reached a threshold.
pub(in crate::admin) fn notifications(state: &AdminState, count: usize) -> Value {
    let process = &state.process;
    let latest = process.notifications.latest();
    let shown = latest.iter().take(count).map(|one| {
        let mut shown = client(one.client, Some(&one.name));
        shown["at"] = time(process.clock.wall_at(one.at)).into();
        shown["policy"] = (*one.policy).into();
        shown["quota"] = (*one.quota).into();
        shown["threshold_percent"] = one.threshold.percent().into();
        shown["remaining"] = one.remaining.into();
        shown["limit"] = one.limit.into();
        shown
    });
    shown.collect()
}

impl UsagePage {
    /// Reads the query; returns `None` if there is no query.
    fn of(request: &AdminRequest) -> Result<Option<Self>, AdminReply> {
        let mut asked = request.query(&["policy", "order", "offset", "limit"])?;
        let wrong = |detail: &str| AdminReply::problem(StatusCode::BAD_REQUEST, detail);
        let number = |text: Option<String>, or: usize| match text {
            None => Ok(or),
            Some(text) => {
                (text.parse()).map_err(|_| wrong("`offset` and `limit` are whole numbers."))
            }
        };
        let order = match asked.remove("order").as_deref() {
            None | Some("refused") => ClientOrder::Refused,
            Some("spent") => ClientOrder::Spent,
            Some("nearest") => ClientOrder::Nearest,
            Some(_) => return Err(wrong("`order` is `refused`, `spent` or `nearest`.")),
        };
        let page = Self {
            order,
            offset: number(asked.remove("offset"), 0)?,
            limit: number(asked.remove("limit"), PAGE)?,
            policy: match asked.remove("policy") {
                Some(policy) => policy,
                None if request.head.uri.query().is_none() => return Ok(None),
                None => return Err(wrong("`policy` is missing: of which policy?")),
            },
        };
        if !(1..=PAGE_MAX).contains(&page.limit) {
            return Err(wrong("`limit` is 1 to 1000."));
        }
        Ok(Some(page))
    }

    fn render(&self, state: &AdminState) -> AdminReply {
        let live = state.process.live();
        let top = match super::policy_named(&live, &self.policy) {
            Ok((_, top)) => top,
            Err(unknown) => return unknown,
        };
        let (clients, count, since) = self.order.clients(top, state, self.offset, self.limit);
        let next = self.offset.saturating_add(self.limit);
        AdminReply::json(&json!({
            "policy": self.policy,
            "order": self.order.word(),
            "since": since,
            "count": count,
            "clients": clients,
            "next_offset": (next < count).then_some(next),
        }))
    }
}

impl ClientOrder {
    fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Spent => "spent",
            Self::Nearest => "nearest",
        }
    }

    /// Returns some of the clients of a policy in this order, how many there are, and since when they are counted.
    fn clients(
        self,
        top: &TopClients,
        state: &AdminState,
        offset: usize,
        limit: usize,
    ) -> (Vec<Value>, usize, Option<String>) {
        let clock = &state.process.clock;
        let now = clock.now();
        let events = match self {
            Self::Refused => CountedEvents::Refused,
            Self::Spent => CountedEvents::Spent,
            Self::Nearest => {
                let near = top.nearest(now);
                let page = near.iter().skip(offset).take(limit);
                let page = page.map(|one| near_client(one, clock));
                return (page.collect(), near.len(), None);
            }
        };
        let (counted, since) = top.counted(events, now);
        let page = counted.iter().skip(offset).take(limit).map(counted_client);
        let since = time(clock.wall_at(since));
        (page.collect(), counted.len(), Some(since))
    }
}

fn counted_client(one: &CountedClient) -> Value {
    let mut client = client(one.client, one.name.as_deref());
    client["at_least"] = one.at_least.into();
    client["at_most"] = one.at_most.into();
    client
}

fn near_client(one: &NearClient, clock: &Clock) -> Value {
    let mut client = client(one.client, one.name.as_deref());
    client["used_percent"] = (f64::from(one.used_permille) / 10.0).into();
    client["remaining"] = one.remaining.into();
    client["limit"] = one.limit.into();
    client["seen_at"] = time(clock.wall_at(one.seen_at)).into();
    client
}

/// Shows a client as the log shows it, and as `tollgate keys` takes it.
fn client(id: PartitionId, name: Option<&str>) -> Value {
    let id = format!("id:{}", hex(id));
    json!({ "client": name.unwrap_or(&id), "id": id })
}

/// Most clients of each policy that are shown if no policy is asked for.
const FIRST: usize = 10;
/// How many clients a page has unless the client says, and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;
