//! Units in flight that a plan asks Redis for.
//!
//! They count as held from the moment they are asked for. If Redis grants them, they become part of the request's
//! charge. If Redis refuses them, or the client leaves, they are given back. If Redis does not answer and the request
//! goes on without it, the request still holds them, and Redis is told as soon as possible.

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

/// Units that one plan, or a part of one, asks for, if any. Those that are not granted when this is dropped are given
/// back.
pub(super) struct PlanUnitRequests<'a>(Option<Box<OpenAsks<'a>>>);

/// Units that were asked for and have no answer yet.
struct OpenAsks<'a> {
    remote: &'a Remote,
    settlements: &'a SettlementQueue,
    asks: Vec<UnitRequest>,
    asking: AskingGateway,
    /// Whether Redis is known not to have been asked.
    is_unsent: bool,
}

/// Units that one check asks for.
struct UnitRequest {
    /// The place of the check in the plan.
    place: usize,
    key: QuotaKey,
    sequence: u64,
    /// Entry of the request's charge, if the request holds the units without an answer from Redis.
    entry: ChargeEntry,
    units: u64,
}

/// Says whether a plan asks for units in flight.
pub(super) fn has_units(plan: &[Check<'_>]) -> bool {
    plan.iter().any(|check| check.quota.is_in_flight())
}

impl<'a> PlanUnitRequests<'a> {
    /// Counts the units that these checks ask for as held; `places` are the checks' places in the plan.
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
            open.asks.push(UnitRequest {
                place,
                key,
                sequence,
                entry: ChargeEntry::in_redis(check, Some(Charged::plain(Timestamp(0), check.cost))),
                units: check.cost,
            });
        }
        Self(Some(Box::new(open)))
    }

    /// Notes that Redis did not answer, and why.
    pub(super) fn unanswered(&mut self, why: Unanswered) {
        if let Some(open) = &mut self.0 {
            open.is_unsent = matches!(
                why,
                Unanswered::Unsent | Unanswered::Unasked | Unanswered::CrossSlot
            );
        }
    }

    /// Returns what Redis is told of the gateway that asks; none if the plan asks for no units.
    pub(super) fn asking(&self) -> Option<&AskingGateway> {
        self.0.as_ref().map(|open| &open.asking)
    }

    /// Notes what Redis answered the checks at these places. Checks that it did not decide stay open.
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

    /// Notes how the checks at these places were decided here, in place of Redis. Units that the request then holds are
    /// added to `charge`.
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
            // Units that an `open` policy admits without counting are held, too.
            let is_held = verdict.admit && (answer.charged.is_some() || answer.decision.is_none());
            if let (Some(index), true) = (asked, is_held) {
                let ask = open.asks.remove(index);
                open.settle(&ask, UnitsAnswer::Kept, None);
                charge.entries.push(ask.entry);
            }
        }
    }

    /// Like [`answered_here`](Self::answered_here), for a whole plan.
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
    /// Notes the answer to a check that asked for units, and queues the client's number if it is to be announced.
    fn settle(&self, ask: &UnitRequest, answer: UnitsAnswer, free: Option<u64>) {
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
            // Unless it was not asked, Redis may have granted the units, or may still grant them.
            let answer = if self.is_unsent {
                UnitsAnswer::Refused
            } else {
                UnitsAnswer::Lost
            };
            self.settle(&ask, answer, None);
        }
    }
}

/// Waits, before a plan is sent, until units that came back are announced, if they may decide the plan. Returns how
/// much of the decision's timeout is left: enough for `round_trips` if the timeout is, and at least half of it.
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

/// Waits for announcements for at most `longest`; returns how long it waited.
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
