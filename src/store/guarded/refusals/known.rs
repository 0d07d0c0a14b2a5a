//! What is known of a quota that refused: its state, or if that would be too large, how long some costs are refused.

use smallvec::SmallVec;

use super::interval::Interval;
use crate::clock::{Micros, Timestamp};
use crate::limit::{AnyState, Check, Decision, Quota, Retry};
use crate::store::guarded::server_time::{counted_down, lengthened, shortened};
use crate::store::redis::wire::RefusedState;

/// Which costs a quota that refused must still refuse, and for how long.
#[derive(Debug)]
pub(super) enum KnownRefusal {
    /// The quota's state, which gives the wait of every cost.
    State(RefusedState),
    /// Only the waits of some costs.
    Waits(Box<Waits>),
}

/// How long some costs are refused at least.
#[derive(Debug)]
pub(super) struct Waits {
    /// The decision for the cost that was asked for.
    decision: Decision,
    /// Waits of some costs, in no order; at most [`WAITS_MAX`].
    waits: SmallVec<[Wait; WAITS_MAX]>,
}

/// How long a cost and all higher ones are refused.
#[derive(Clone, Copy, Debug)]
struct Wait {
    cost: u64,
    /// Until when they are refused for certain.
    until: Timestamp,
    /// Until when they are refused at most, if there is no other traffic.
    until_latest: Timestamp,
}

impl KnownRefusal {
    /// Makes what is known of a check that was refused; `asked` says when.
    pub(super) fn of(check: &Check<'_>, refused: RefusedState, asked: Interval) -> Self {
        let is_small = match &refused.state {
            AnyState::FixedWindow(_)
            | AnyState::CalendarWindow(_)
            | AnyState::Gcra(_)
            | AnyState::Credits(_)
            | AnyState::Penalty(_)
            | AnyState::InFlight(_) => true,
            AnyState::SlidingWindow(window) => window.buckets_in_use() <= BUCKETS_KEPT_MAX,
            AnyState::SlidingLog(_) => false,
        };
        if is_small {
            return Self::State(refused);
        }
        let RefusedState { state, at, .. } = &refused;
        let decision = state.decision(check.quota, check.cost, *at, false);
        let mut waits = SmallVec::new();
        let mut wait = |cost, retry| {
            waits.push(match retry {
                Retry::After(wait) => Wait {
                    cost,
                    until: asked.sent + shortened(wait),
                    until_latest: asked.received + wait,
                },
                Retry::Never => Wait {
                    cost,
                    until: FOREVER,
                    until_latest: FOREVER,
                },
            });
        };
        if let Some(next) = decision.next {
            wait(decision.remaining + 1, Retry::After(next));
        }
        wait(check.cost, decision.retry);
        Self::Waits(Box::new(Waits { decision, waits }))
    }

    /// Takes over what an `older` refusal says of higher costs.
    pub(super) fn inherit(&mut self, older: &Self) {
        let (Self::Waits(newer), Self::Waits(older)) = (self, older) else {
            return;
        };
        let highest = (newer.waits.iter())
            .map(|wait| (wait.cost, wait.until))
            .max();
        let Some((cost, until)) = highest else {
            return;
        };
        let mut longer: SmallVec<[Wait; WAITS_MAX]> = (older.waits.iter().copied())
            .filter(|wait| wait.cost > cost && wait.until > until)
            .collect();
        longer.sort_unstable_by_key(|wait| std::cmp::Reverse(wait.until));
        let room = WAITS_MAX - newer.waits.len();
        newer.waits.extend(longer.into_iter().take(room));
    }

    /// Says whether a cost is refused for certain at `now`.
    pub(super) fn refuses(
        &self,
        quota: &Quota,
        cost: u64,
        asked: Interval,
        now: Timestamp,
    ) -> bool {
        match self {
            Self::State(RefusedState {
                state,
                now: then,
                at,
            }) => {
                let latest = *then + lengthened(now.since(asked.sent));
                !state.admits_later(quota, cost, latest.max(*at))
            }
            Self::Waits(known) => {
                (known.waits.iter()).any(|wait| wait.cost <= cost && now < wait.until)
            }
        }
    }

    /// Returns what the client is told at `now` of a cost that is refused.
    pub(super) fn refusal(
        &self,
        quota: &Quota,
        cost: u64,
        asked: Interval,
        now: Timestamp,
    ) -> Decision {
        let elapsed = now.since(asked.received);
        match self {
            Self::State(RefusedState {
                state,
                now: then,
                at,
            }) => state.decision(quota, cost, (*then + elapsed).max(*at), false),
            Self::Waits(known) => {
                let Waits { decision, waits } = &**known;
                let waits = waits.iter().filter(|wait| wait.cost <= cost);
                let until = waits.map(|wait| wait.until_latest).max().unwrap_or(now);
                Decision {
                    next: (decision.next).map(|next| counted_down(next, elapsed)),
                    reset: counted_down(decision.reset, elapsed),
                    retry: if cost > quota.capacity() {
                        Retry::Never
                    } else {
                        Retry::After(until.since(now).max(Micros(1)))
                    },
                    ..*decision
                }
            }
        }
    }

    /// Returns until when some cost that the quota can hold may still be refused.
    pub(super) fn over(&self, quota: &Quota, asked: Interval) -> Timestamp {
        match self {
            // A balance does not come back with time.
            Self::State(_) if quota.is_balance() => FOREVER,
            Self::State(RefusedState { state, at, .. }) => {
                let decision = state.decision(quota, 0, *at, true);
                asked.sent + decision.reset
            }
            Self::Waits(known) => {
                let until = known.waits.iter().map(|wait| wait.until);
                until.max().unwrap_or(asked.sent)
            }
        }
    }
}

/// Most buckets in use of a sliding window whose state is remembered: at most 480 bytes.
const BUCKETS_KEPT_MAX: usize = 60;
/// Most waits that are remembered of a quota whose state is not.
const WAITS_MAX: usize = 4;
const FOREVER: Timestamp = Timestamp(u64::MAX);
