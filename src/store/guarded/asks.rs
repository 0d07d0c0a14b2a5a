//! Units in flight that a plan asks Redis for.
//!
//! They count as held from the moment they are asked for. If Redis grants them, they are the request's charge. If Redis
//! refuses them, or the client leaves, they come back. If Redis does not answer and the request goes on without it, it
//! holds them all the same: Redis is told when it can be.

use std::time::Duration;

use super::counters::Unanswered;
use super::holdings::{HoldingKey, UnitsAnswer};
use super::remote::Remote;
use super::settlements::SettlementQueue;
use crate::clock::{Timestamp, monotonic};
use crate::limit::plan::CheckMode;
use crate::limit::{Charged, Check, CheckResult, Verdict};
use crate::store::charge::{Charge, ChargeEntry, Keeper};
use crate::store::outcome::StoreVerdict;

/// What one plan, or a part of one, asks for; what is not granted when this is dropped comes back.
pub(super) struct PlanAsks<'a> {
    remote: &'a Remote,
    settlements: &'a SettlementQueue,
    asks: Vec<UnitsAsked>,
    /// The sequence numbers, in the order of the checks.
    sequences: Vec<u64>,
    /// Whether Redis is known not to have been asked.
    is_unsent: bool,
}

/// What one check asks for.
struct UnitsAsked {
    /// The place of the check in the plan.
    place: usize,
    sequence: u64,
    /// What is charged if it is granted.
    entry: ChargeEntry,
    units: u64,
}

impl<'a> PlanAsks<'a> {
    /// Begins to ask for the units of these checks, each with its place in the plan; most plans have none.
    pub(super) fn begin<'c>(
        remote: &'a Remote,
        settlements: &'a SettlementQueue,
        checks: impl Iterator<Item = (usize, &'c Check<'c>)>,
    ) -> Self {
        let (mut asks, mut sequences, store) = (Vec::new(), Vec::new(), remote.store());
        for (place, check) in checks.filter(|(_, check)| check.quota.is_in_flight()) {
            let (key, limit, now) = (key_of(check), check.quota.limit, store.clock.now());
            let sequence = store.holdings.ask(key, check.cost, limit, now);
            sequences.push(sequence);
            asks.push(UnitsAsked {
                place,
                sequence,
                entry: ChargeEntry {
                    quota: *check.quota,
                    policy: check.policy,
                    series_id: check.series_id,
                    partition_id: check.partition_id,
                    charged: Some(Charged::plain(Timestamp(0), check.cost)),
                    keeper: Keeper::Redis,
                },
                units: check.cost,
            });
        }
        Self {
            remote,
            settlements,
            asks,
            sequences,
            is_unsent: false,
        }
    }

    /// Notes that there is no answer, and why.
    pub(super) fn unanswered(&mut self, why: Unanswered) {
        self.is_unsent = matches!(
            why,
            Unanswered::Unsent | Unanswered::Unasked | Unanswered::CrossSlot
        );
    }

    /// Returns the sequence numbers, in the order of the checks.
    pub(super) fn sequences(&self) -> &[u64] {
        &self.sequences
    }

    /// Notes what Redis answered the checks at these places. What it was not asked about stays as it is.
    pub(super) fn answered(
        &mut self,
        places: impl Iterator<Item = usize>,
        answers: &[CheckResult],
    ) {
        if self.asks.is_empty() {
            return;
        }
        for (place, answer) in places.zip(answers) {
            let asked = self.asks.iter().position(|ask| ask.place == place);
            let (Some(index), Some(_)) = (asked, answer.decision) else {
                continue;
            };
            let ask = self.asks.remove(index);
            let granted = match answer.charged {
                Some(_) => UnitsAnswer::Granted,
                None => UnitsAnswer::Refused,
            };
            let free = answer.decision.map(|decision| decision.remaining);
            self.settle(&ask, granted, free);
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
        if self.asks.is_empty() {
            return;
        }
        for (place, answer) in places.zip(&verdict.answers) {
            let asked = self.asks.iter().position(|ask| ask.place == place);
            // What nobody counts is held, too.
            let is_held = verdict.admit && (answer.charged.is_some() || answer.decision.is_none());
            if let (Some(index), true) = (asked, is_held) {
                let ask = self.asks.remove(index);
                self.settle(&ask, UnitsAnswer::Kept, None);
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

    /// Notes what became of an ask, and has that announced if it is to be.
    fn settle(&self, ask: &UnitsAsked, answer: UnitsAnswer, free: Option<u64>) {
        let key = ask.entry.key();
        let asked = (key, ask.units, ask.sequence);
        let store = self.remote.store();
        if (store.holdings).answered(asked, answer, free, store.clock.now()) {
            (self.settlements.announcements).announce(self.remote, key);
        }
    }
}

impl Drop for PlanAsks<'_> {
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

/// Waits, before a plan is sent, until what ended before it is announced where that may decide it; returns what is left
/// of the time that a decision may take, which is enough for so many round trips, and at least half of it.
pub(super) async fn wait_for_announcements(
    remote: &Remote,
    plan: &[Check<'_>],
    round_trips: u32,
) -> Duration {
    let timeout = remote.store().settings().timeout;
    if !plan.iter().any(|check| check.quota.is_in_flight()) {
        return timeout;
    }
    let needed = remote.round_trip(&plan[0]) * (round_trips + 1);
    let longest = timeout.saturating_sub(needed).min(timeout / 2);
    // Boxed, so that other plans need no room for it.
    timeout.saturating_sub(Box::pin(wait_for(remote, plan, longest)).await)
}

/// Waits at most so long; returns how long it did.
async fn wait_for(remote: &Remote, plan: &[Check<'_>], longest: Duration) -> Duration {
    let holdings = &remote.store().holdings;
    let decides =
        |check: &&Check<'_>| check.quota.is_in_flight() && check.mode == CheckMode::Enforce;
    let waiting = async {
        for check in plan.iter().filter(decides) {
            while let Some(announced) = holdings.before_asking(key_of(check), check.cost) {
                announced.await;
            }
        }
    };
    let began = monotonic();
    let _ = tokio::time::timeout(longest, waiting).await;
    monotonic().saturating_duration_since(began)
}

fn key_of(check: &Check<'_>) -> HoldingKey {
    HoldingKey {
        series_id: check.series_id,
        partition_id: check.partition_id,
    }
}

impl ChargeEntry {
    fn key(&self) -> HoldingKey {
        HoldingKey {
            series_id: self.series_id,
            partition_id: self.partition_id,
        }
    }
}
