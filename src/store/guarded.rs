//! One decision over Redis, whatever becomes of Redis: remembered refusals first, then the store,
//! then what each policy wants done without it.
//!
//! What is kept in one place is decided there in one step; on a Cluster the partitions of a plan may
//! be kept [`apart`]. Nothing is ever sent twice: what got no answer in time may have been counted, and
//! stays so.

mod apart;
mod leavers;

pub(super) use leavers::Leavers;

use std::rc::Rc;

use futures_util::future::join_all;
use smallvec::SmallVec;

use super::charge::{Charge, Entry, Place};
use super::outcome::Outcome;
use super::redis::wire::{Settlement, Step};
use super::redis::{Lost, Session};
use super::refusals::Interval;
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{Algorithm, Check, Count, Decision, PartitionId, Quota, Verdict};

/// Whether Redis was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// No: nothing was sent.
    Unsent,
    /// It may have been.
    Sent,
}

/// Answers a plan that a remembered refusal answers.
pub(super) fn remembered(session: &Session, plan: &[Check<'_>]) -> Option<Outcome> {
    let store = session.store();
    let verdict = store.refusals.find(plan, || store.clock.now())?;
    session.note_remembered();
    Some(Outcome::Decided {
        verdict,
        charge: Charge::default(),
        is_degraded: false,
    })
}

/// Decides a plan that is not [`remembered`], all or nothing.
pub(super) async fn decide(session: &Rc<Session>, plan: &[Check<'_>]) -> Outcome {
    let store = session.store();
    let sent = store.clock.now();
    let question = session.leavers.ask(plan);
    let outcome = if is_in_one_place(session, plan) {
        decide_part(session, plan, sent).await
    } else {
        apart::decide(session, plan).await
    };
    question.answered();
    if let Outcome::Decided {
        verdict,
        is_degraded: false,
        ..
    } = &outcome
    {
        remember(session, plan, verdict, sent);
    }
    outcome
}

/// Has a worker look at plans whose clients leave before the answer, as long as there is the session.
pub(super) fn attend(session: &Rc<Session>) {
    let leavers = Rc::clone(&session.leavers);
    tokio::task::spawn_local(leavers.attend(Rc::downgrade(session)));
}

/// Remembers that Redis, asked at `sent`, refused a plan, if it did.
fn remember(session: &Session, plan: &[Check<'_>], verdict: &Verdict, sent: Timestamp) {
    if verdict.admit {
        return;
    }
    let store = session.store();
    let received = store.clock.now();
    let cap = store.in_force().refusal_cache;
    let asked = Interval { sent, received };
    store.refusals.remember(plan, verdict, asked, cap);
}

/// Says what each check of a plan would be answered.
pub(super) async fn peek(session: &Session, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
    if is_in_one_place(session, plan) {
        return look_part(session, plan).await;
    }
    let parts = apart::parts(session, plan);
    let peeks = join_all(parts.iter().map(|part| look_part(session, &part.checks))).await;
    let mut decisions: SmallVec<[(usize, Decision); 4]> = (parts.iter().zip(peeks))
        .flat_map(|(part, peeks)| part.places.iter().copied().zip(peeks))
        .collect();
    decisions.sort_unstable_by_key(|(place, _)| *place);
    decisions.into_iter().map(|(_, peek)| peek).collect()
}

/// Gives back up to `amount` units of every quota that was charged; returns what still stands.
///
/// What may have come back does not stand any more: nothing comes back twice.
pub(super) async fn release(session: &Session, charge: Charge, amount: u64) -> Charge {
    let (here, mut there) = split(charge);
    let mut charge = session.store().memory.release(here, amount);
    let step = |entry: &Entry| {
        let charged = entry.charged?;
        let amount = amount.min(charged.amount);
        Some(Step::Release { charged, amount })
    };
    let settled = settle(session, &there, step).await;
    for (entry, settled) in there.iter_mut().zip(settled) {
        let Some(charged) = entry
            .charged
            .as_mut()
            .filter(|_| settled != Settled::Unsent)
        else {
            continue;
        };
        charged.amount = charged.amount.saturating_sub(amount);
        entry.charged = entry.charged.filter(|charged| charged.amount > 0);
    }
    charge.entries.extend(there);
    charge
}

/// Spends `amount` more in every quota of the plan, without asking.
///
/// What Redis cannot be told in time is not counted.
pub(super) async fn spend(session: &Session, charge: &Charge, amount: u64) {
    if amount == 0 {
        return;
    }
    let entries = charge.entries.clone();
    let (here, there) = split(Charge { entries });
    session.store().memory.spend(&here, amount);
    let step = |_: &Entry| Some(Step::Spend(amount));
    drop(settle(session, &there, step).await);
}

/// Makes one partition's quota whole again, here and there.
pub(super) async fn reset(session: &Session, series_id: SeriesId, partition_id: PartitionId) {
    let store = session.store();
    let settlement = Settlement {
        quota: &ANY,
        series_id,
        partition_id,
        step: Step::Reset,
    };
    let _ = session.settle(&[settlement]).await;
    let fallback = store.fallback();
    store
        .memory
        .reset(series_id, fallback.partition_id(partition_id));
    store.refusals.forget(series_id, partition_id);
}

/// Decides, from `now` on, what is kept in one place, or what is done in place of that.
async fn decide_part(session: &Session, plan: &[Check<'_>], now: Timestamp) -> Outcome {
    if let Ok(verdict) = session.decide(plan, now).await {
        let entries = (plan.iter().zip(&verdict.answers))
            .map(|(check, answer)| Entry {
                quota: *check.quota,
                series_id: check.series_id,
                partition_id: check.partition_id,
                charged: answer.charged,
                place: Place::Redis,
            })
            .collect();
        return Outcome::Decided {
            verdict,
            charge: Charge { entries },
            is_degraded: false,
        };
    }
    session.store().fallback().decide(plan)
}

async fn look_part(session: &Session, plan: &[Check<'_>]) -> SmallVec<[Decision; 4]> {
    match session.peek(plan).await {
        Ok(decisions) => decisions,
        Err(_) => session.store().fallback().peek(plan),
    }
}

/// Settles entries that are in Redis, those of one place together.
async fn settle(
    session: &Session,
    entries: &[Entry],
    step: impl Fn(&Entry) -> Option<Step>,
) -> Vec<Settled> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut settled = vec![Settled::Unsent; entries.len()];
    for (index, entry) in entries.iter().enumerate() {
        if step(entry).is_none() {
            continue;
        }
        let is_near = |group: &&mut Vec<usize>| {
            !session.is_apart(entries[group[0]].partition_id, entry.partition_id)
        };
        match groups.iter_mut().find(is_near) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    let calls = groups.iter().map(async |group| {
        let settlements = group.iter().filter_map(|&index| {
            let entry = &entries[index];
            Some(Settlement {
                quota: &entry.quota,
                series_id: entry.series_id,
                partition_id: entry.partition_id,
                step: step(entry)?,
            })
        });
        let settlements: SmallVec<[Settlement<'_>; 4]> = settlements.collect();
        session.settle(&settlements).await
    });
    for (group, result) in groups.iter().zip(join_all(calls).await) {
        if !matches!(result, Err(Lost::Unasked | Lost::Unsent)) {
            for &index in group {
                settled[index] = Settled::Sent;
            }
        }
    }
    settled
}

/// Sorts what was charged by who keeps it: this node, Redis.
fn split(charge: Charge) -> (Charge, SmallVec<[Entry; 2]>) {
    let is_here = |entry: &Entry| entry.place != Place::Redis;
    let (here, there) = charge.entries.into_iter().partition(is_here);
    (Charge { entries: here }, there)
}

fn is_in_one_place(session: &Session, plan: &[Check<'_>]) -> bool {
    plan.split_first().is_none_or(|(first, rest)| {
        (rest.iter()).all(|check| !session.is_apart(first.partition_id, check.partition_id))
    })
}

fn unavailable(session: &Session) -> Outcome {
    Outcome::Unavailable {
        retry: session.store().cooldown(),
    }
}

/// Stands for the quota of what is reset, whichever it is.
const ANY: Quota = Quota {
    limit: 1,
    window: Micros(1),
    algorithm: Algorithm::FixedWindow,
    count: Count::Admitted,
};
