//! Chooses where a request goes, among the endpoints of an upstream as one worker sees them.
//!
//! Endpoints that the request has not tried come first, available ones before ejected ones. An ejected
//! endpoint comes before one at which the request has just failed, because it may have recovered.
//! Endpoints that checks have found unhealthy are never chosen.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::endpoints::{Failure, UpstreamState};
use super::origin::Origin;
use crate::chance;
use crate::clock::Timestamp;
use crate::metrics::WorkerIndex;
use crate::snapshot::Balance;

/// The endpoints of an upstream as one worker sees them.
#[derive(Debug)]
pub(super) struct Origins {
    pub(super) upstream: Arc<UpstreamState>,
    /// The version of the upstream's endpoints that these are; see `UpstreamState::version`.
    version: u64,
    list: Box<[Candidate]>,
    counts_requests: bool,
    /// Requests since the latest report to the retry budget.
    requests: Cell<u64>,
    now: Rc<Cell<Timestamp>>,
}

/// An endpoint that may be chosen.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) origin: Rc<Origin>,
    pub(super) weight: u32,
    /// How far the endpoint is behind its share of requests, in weights; negative if it is ahead.
    credit: Cell<i64>,
}

/// Endpoints that a request has tried.
pub(super) type Tried = smallvec::SmallVec<[Rc<Origin>; 2]>;

impl Origins {
    pub(super) fn new(
        upstream: &Arc<UpstreamState>,
        version: u64,
        list: impl Iterator<Item = (Rc<Origin>, u32)>,
        now: Rc<Cell<Timestamp>>,
    ) -> Self {
        let list = list.map(|(origin, weight)| Candidate {
            origin,
            weight,
            credit: Cell::new(0),
        });
        let origins = Self {
            upstream: Arc::clone(upstream),
            version,
            list: list.collect(),
            counts_requests: upstream.http().balance == Balance::LeastRequests,
            requests: Cell::new(0),
            now,
        };
        // Workers begin at different endpoints, and a worker at another one after each change.
        let weights: u64 = origins.list.iter().map(|one| u64::from(one.weight)).sum();
        for _ in 0..chance::below(weights.clamp(1, BEGINNINGS_MAX)) {
            origins.next_turn(&|_| true);
        }
        origins
    }

    /// Whether these are still the current endpoints of the upstream.
    pub(super) fn is_current(&self) -> bool {
        self.version == self.upstream.version()
    }

    /// Whether there are no endpoints.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the endpoints.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Rc<Origin>> {
        self.list.iter().map(|one| &one.origin)
    }

    /// Chooses the endpoint for a request that has already tried those in `tried`. `hash` identifies the
    /// client if the upstream balances by hash. None if no endpoint is healthy.
    pub(super) fn choose(&self, tried: &[Rc<Origin>], hash: Option<u64>) -> Option<&Rc<Origin>> {
        if tried.is_empty() {
            self.requests.set(self.requests.get() + 1);
            if let [only] = &*self.list {
                return only.origin.state.is_healthy().then_some(&only.origin);
            }
        }
        let is_new =
            |candidate: &Candidate| !tried.iter().any(|one| Rc::ptr_eq(one, &candidate.origin));
        let is_healthy = |candidate: &Candidate| candidate.origin.state.is_healthy();
        let chosen = self
            .choose_available(hash, &is_new)
            .or_else(|| self.choose_of(hash, &|value| is_healthy(value) && is_new(value)))
            .or_else(|| self.choose_available(hash, &|_| true))
            .or_else(|| self.choose_of(hash, &is_healthy));
        chosen.map(|chosen| &chosen.origin)
    }

    /// Chooses among the available endpoints. After an ejection, an endpoint is given one request at a
    /// time; if that one is under way already, another endpoint is chosen.
    fn choose_available(
        &self,
        hash: Option<u64>,
        may_be: &dyn Fn(&Candidate) -> bool,
    ) -> Option<&Candidate> {
        let (now, timeout) = (self.now.get(), self.upstream.http().connect_timeout);
        loop {
            let is_available = |candidate: &Candidate| {
                candidate.origin.state.is_available(now) && may_be(candidate)
            };
            let chosen = self.choose_of(hash, &is_available)?;
            if chosen.origin.state.admit(timeout, now) {
                return Some(chosen);
            }
        }
    }

    /// Chooses an untried endpoint of the same name as the first in `tried`, for a connection that is slow to come.
    pub(super) fn choose_of_name(
        &self,
        tried: &[Rc<Origin>],
        hash: Option<u64>,
    ) -> Option<&Rc<Origin>> {
        let first = &tried.first()?.state;
        let chosen = self.choose_available(hash, &|value| {
            value.origin.state.shares_name(first)
                && !tried.iter().any(|one| Rc::ptr_eq(one, &value.origin))
        });
        chosen.map(|chosen| &chosen.origin)
    }

    fn choose_of(
        &self,
        hash: Option<u64>,
        may_be: &dyn Fn(&Candidate) -> bool,
    ) -> Option<&Candidate> {
        match (&self.upstream.http().balance, hash) {
            (Balance::LeastRequests, _) => self.less_busy_of_two(may_be),
            (Balance::Hash(_), Some(hash)) => self.ranked_first(hash, may_be),
            (Balance::RoundRobin | Balance::Hash(_), _) => self.next_turn(may_be),
        }
    }

    /// Smooth weighted round-robin: in each turn every endpoint gains its weight as credit, and the one
    /// with the most credit is chosen and loses the sum of all weights.
    fn next_turn(&self, may_be: &dyn Fn(&Candidate) -> bool) -> Option<&Candidate> {
        let mut total = 0;
        let mut next: Option<&Candidate> = None;
        for one in self.list.iter().filter(|one| may_be(one)) {
            one.credit.set(one.credit.get() + i64::from(one.weight));
            total += i64::from(one.weight);
            if next.is_none_or(|next| one.credit > next.credit) {
                next = Some(one);
            }
        }
        let next = next?;
        next.credit.set(next.credit.get() - total);
        Some(next)
    }

    /// Draws two endpoints by their weights, and takes the one with fewer requests for its weight; if
    /// they are equal, the one that was drawn first.
    fn less_busy_of_two(&self, may_be: &dyn Fn(&Candidate) -> bool) -> Option<&Candidate> {
        let first = self.draw(may_be)?;
        let second = self.draw(&|one| !std::ptr::eq(one, first) && may_be(one));
        let requests = |one: &Candidate| one.origin.state.requests.load(Relaxed) as u64;
        Some(match second {
            Some(second)
                if requests(second) * u64::from(first.weight)
                    < requests(first) * u64::from(second.weight) =>
            {
                second
            }
            _ => first,
        })
    }

    fn draw(&self, may_be: &dyn Fn(&Candidate) -> bool) -> Option<&Candidate> {
        let all = || self.list.iter().filter(|one| may_be(one));
        let total: u64 = all().map(|one| u64::from(one.weight)).sum();
        let mut drawn = chance::below(total.max(1));
        all().find(|one| {
            let is_it = drawn < u64::from(one.weight);
            drawn = drawn.saturating_sub(one.weight.into());
            is_it
        })
    }

    /// Rendezvous hashing: each endpoint gets a score from the request's hash and its own id, and the highest wins, so
    /// an endpoint that leaves moves only its own requests. The inverse of a score is exponentially distributed with
    /// the weight as its rate, so endpoints win in proportion to their weights.
    fn ranked_first(&self, hash: u64, may_be: &dyn Fn(&Candidate) -> bool) -> Option<&Candidate> {
        let lot = |one: &Candidate| {
            #[expect(clippy::cast_precision_loss, reason = "53 bits are left")]
            let fraction = ((mix(hash ^ one.origin.state.id) >> 11) as f64 + 0.5) / TWO_TO_53;
            f64::from(one.weight) / -fraction.ln()
        };
        let lots = self.list.iter().filter(|one| may_be(one));
        let lots = lots.map(|one| (lot(one), one));
        let best = lots.max_by(|(one, _), (other, _)| one.total_cmp(other));
        best.map(|(_, one)| one)
    }

    /// Notes that a request begins at `origin`.
    pub(super) fn began(&self, origin: &Origin) {
        if self.counts_requests {
            origin.state.requests.fetch_add(1, Relaxed);
        }
    }

    /// Notes that a request has ended at `origin`.
    pub(super) fn ended(&self, origin: &Origin) {
        if self.counts_requests {
            origin.state.requests.fetch_sub(1, Relaxed);
        }
    }

    /// Notes that a request failed at `origin`.
    pub(super) fn failed(&self, origin: &Origin, failure: &Failure<'_>, worker: WorkerIndex) {
        let now = self.now.get();
        (self.upstream).failed(&origin.state, failure, now, worker);
    }

    /// Reports the requests since the latest report to the retry budget.
    pub(super) fn report_requests(&self) {
        let requests = self.requests.take();
        if requests > 0 {
            self.upstream.add_requests(requests, self.now.get());
        }
    }
}

/// Spreads a number over 64 bits: the finalizer of splitmix64 (Steele, Lea, Flood 2014).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Upper bound of the random number of turns by which a worker's order is advanced at the beginning.
const BEGINNINGS_MAX: u64 = 64;

const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
