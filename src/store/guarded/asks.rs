//! Units in flight that a plan asks Redis for.
//!
//! They count as held from the moment they are asked for. If Redis grants them, they are the request's charge. If Redis
//! refuses them, or the client leaves, they come back. If Redis does not answer and the request goes on without it, it
//! holds them all the same: Redis is told when it can be.

use std::time::Duration;

use super::call_metrics::Unanswered;
use super::holdings::UnitsAnswer;
use super::quota_key::QuotaKey;
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::{Timestamp, monotonic};
use crate::limit::plan::CheckMode;
use crate::limit::{Charged, Check, CheckResult, Verdict};
use crate::store::charge::{Charge, ChargeEntry};
use crate::store::outcome::StoreVerdict;
use crate::store::redis::wire::AskingGateway;

/// What one plan, or a part of one, asks for, if that is anything; what is not granted when this is dropped comes back.
pub(super) struct PlanAsks<'a>(Option<Box<OpenAsks<'a>>>);

/// What was asked for, and is not answered.
struct OpenAsks<'a> {
    remote: &'a Remote,
    settlements: &'a SettlementQueue,
    asks: Vec<UnitsAsked>,
    asking: AskingGateway,
    /// Whether Redis is known not to have been asked.
    is_unsent: bool,
}

/// What one check asks for.
struct UnitsAsked {
    /// The place of the check in the plan.
    place: usize,
    key: QuotaKey,
    sequence: u64,
    /// What is charged if it is granted.
    entry: ChargeEntry,
    units: u64,
}

/// Says whether a plan asks for units in flight.
pub(super) fn has_units(plan: &[Check<'_>]) -> bool {
    plan.iter().any(|check| check.quota.is_in_flight())
}

impl<'a> PlanAsks<'a> {
    /// Begins to ask for the units of these checks, which have these places in the plan.
    pub(super) fn begin(
        remote: &'a Remote,
        settlements: &'a SettlementQueue,
        plan: &[Check<'_>],
        places: impl Iterator<Item = usize>,
    ) -> Self {
        if !has_units(plan) {
            return Self(None);
        }
        let holdings = &remote.store().holdings;
        let mut open = OpenAsks {
            remote,
            settlements,
            asks: Vec::new(),
            asking: AskingGateway {
                gateway: holdings.gateway(),
                sequences: Vec::new(),
            },
            is_unsent: false,
        };
        for (place, check) in places.zip(plan) {
            if !check.quota.is_in_flight() {
                continue;
            }
            let (key, now) = (QuotaKey::of(check), remote.store().clock.now());
            let sequence = holdings.ask(key, check.cost, check.quota.limit, now);
            open.asking.sequences.push(sequence);
            open.asks.push(UnitsAsked {
                place,
                key,
                sequence,
                entry: ChargeEntry::in_redis(check, Some(Charged::plain(Timestamp(0), check.cost))),
                units: check.cost,
            });
        }
        Self(Some(Box::new(open)))
    }

    /// Notes that there is no answer, and why.
    pub(super) fn unanswered(&mut self, why: Unanswered) {
        if let Some(open) = &mut self.0 {
            open.is_unsent = matches!(
                why,
                Unanswered::Unsent | Unanswered::Unasked | Unanswered::CrossSlot
            );
        }
    }

    /// Returns who asks; none if nobody does.
    pub(super) fn asking(&self) -> Option<&AskingGateway> {
        self.0.as_ref().map(|open| &open.asking)
    }

    /// Notes what Redis answered the checks at these places. What it was not asked about stays as it is.
    pub(super) fn answered(
        &mut self,
        places: impl Iterator<Item = usize>,
        answers: &[CheckResult],
    ) {
        let Some(open) = &mut self.0 else {
            return;
        };
        for (place, answer) in places.zip(answers) {
            let asked = open.asks.iter().position(|ask| ask.place == place);
            let (Some(index), Some(_)) = (asked, answer.decision) else {
                continue;
            };
            let ask = open.asks.remove(index);
            let granted = match answer.charged {
                Some(_) => UnitsAnswer::Granted,
                None => UnitsAnswer::Refused,
            };
            let free = answer.decision.map(|decision| decision.remaining);
            open.settle(&ask, granted, free);
        }
    }

    /// Notes what the checks at these places were answered here, in place of Redis. What the request holds then is put
    /// into its charge.
    pub(super) fn answered_here(
        &mut self,
        places: impl Iterator<Item = usize>,
        verdict: &Verdict,
        charge: &mut Charge,
    ) {
        let Some(open) = &mut self.0 else {
            return;
        };
        for (place, answer) in places.zip(&verdict.answers) {
            let asked = open.asks.iter().position(|ask| ask.place == place);
            // What an `open` policy lets through uncounted is held, too.
            let is_held = verdict.admit && (answer.charged.is_some() || answer.decision.is_none());
            if let (Some(index), true) = (asked, is_held) {
                let ask = open.asks.remove(index);
                open.settle(&ask, UnitsAnswer::Kept, None);
                charge.entries.push(ask.entry);
            }
        }
    }

    /// As [`answered_here`](Self::answered_here), for a whole plan.
    pub(super) fn decided_here(&mut self, outcome: &mut StoreVerdict) {
        if let StoreVerdict::Decided {
            verdict, charge, ..
        } = outcome
        {
            self.answered_here(0.., verdict, charge);
        }
    }
}

impl OpenAsks<'_> {
    /// Notes what became of an ask, and has that announced if it is to be.
    fn settle(&self, ask: &UnitsAsked, answer: UnitsAnswer, free: Option<u64>) {
        let asked = (ask.key, ask.units, ask.sequence);
        let store = self.remote.store();
        if (store.holdings).answered(asked, answer, free, store.clock.now()) {
            (self.settlements.announcements).announce(self.remote, ask.key);
        }
    }
}

impl Drop for OpenAsks<'_> {
    fn drop(&mut self) {
        for ask in std::mem::take(&mut self.asks) {
            // Redis may have granted what it was asked for, or may yet.
            let answer = if self.is_unsent {
                UnitsAnswer::Refused
            } else {
                UnitsAnswer::Lost
            };
            self.settle(&ask, answer, None);
        }
    }
}

/// Waits, before a plan is sent, until what ended before it is announced, where that may decide it. Returns what is left
/// of the time that a decision may take: enough for so many round trips, and at least half of it.
pub(super) async fn wait_for_announcements(
    remote: &Remote,
    plan: &[Check<'_>],
    round_trips: u32,
) -> Duration {
    let timeout = remote.timeout();
    let Some(check) = plan.iter().find(|check| check.quota.is_in_flight()) else {
        return timeout;
    };
    let longest = remote.time_to_spare(check, round_trips);
    timeout.saturating_sub(wait_for(remote, plan, longest).await)
}

/// Waits at most so long; returns how long it did.
async fn wait_for(remote: &Remote, plan: &[Check<'_>], longest: Duration) -> Duration {
    let holdings = &remote.store().holdings;
    let decides =
        |check: &&Check<'_>| check.quota.is_in_flight() && check.mode == CheckMode::Enforce;
    let waiting = async {
        for check in plan.iter().filter(decides) {
            while let Some(announced) = holdings.before_asking(QuotaKey::of(check), check.cost) {
                announced.await;
            }
        }
    };
    let began = monotonic();
    let _ = tokio::time::timeout(longest, waiting).await;
    monotonic().saturating_duration_since(began)
}
