//! Plans for the decide script, and its replies.

use smallvec::SmallVec;

use super::bad_reply::BadReply;
use super::message::{Packed, Reply};
use super::names::KeyNames;
use super::script::Script;
use super::state_reply::{ReplyReader, StateReply};
use crate::clock::{Micros, Timestamp};
use crate::limit::calendar::Windows;
use crate::limit::plan::{self, CheckMode, Ledger, Peek, Step};
use crate::limit::sliding_window::BUCKETS_MAX;
use crate::limit::{
    Algorithm, Align, Check, CheckResult, Count, Decision, OldestBucket, Quota, Verdict,
};

/// What the script is to do with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Decide it, and charge it if it is admitted.
    Decide,
    /// Only say what it would be answered.
    Peek,
}

/// Packs a plan of at most [`CHECKS_MAX`](plan::CHECKS_MAX) checks; `now` says about which time the server has, if
/// that matters.
pub fn pack(
    plan: &[Check<'_>],
    names: &KeyNames,
    intent: Intent,
    now: impl Fn() -> Timestamp,
) -> Packed {
    let mut argument = Vec::with_capacity(2 + plan.len() * CHECK_BYTES);
    let checks = u8::try_from(plan.len()).expect("the file bounds a plan");
    argument.extend([u8::from(intent == Intent::Peek), checks]);
    let mut policy = None;
    for check in plan {
        let flags_at = argument.len() + 1;
        let phase = check.quota.phase(check.partition_id);
        let asked = check.cost;
        put_check(&mut argument, check.quota, phase, (asked, asked));
        argument[flags_at] |= match check.mode {
            CheckMode::Enforce => 0,
            CheckMode::Shadow => NEVER_REFUSES,
            CheckMode::Candidate => NEVER_REFUSES | CANDIDATE,
        };
        if policy.replace(check.policy) != Some(check.policy) {
            argument[flags_at] |= BEGINS_POLICY;
        }
    }
    put_calendars(&mut argument, 2, plan.iter().map(|check| check.quota), &now);
    Packed {
        script: Script::for_plan(plan),
        keys: (plan.iter())
            .map(|check| names.key(check.series_id, check.partition_id))
            .collect(),
        argument,
    }
}

/// Reads the reply to a plan that was to be decided into `verdict`, which is empty.
///
/// A check that a full server did not decide, because it has no key, has neither decision nor charge,
/// and the plan is decided as if it were not part of it.
///
/// # Errors
/// If this script gives no such reply; then the verdict says nothing.
pub fn verdict(plan: &[Check<'_>], reply: &Reply, verdict: &mut Verdict) -> Result<(), BadReply> {
    let mut answers = Answers::read(plan, reply)?;
    plan::decide(&mut answers, plan, verdict);
    // Both sides follow the same rule: a reply that breaks it is not one of this script.
    if verdict.admit != answers.is_admitted {
        return Err(BadReply);
    }
    Ok(())
}

/// Reads the reply to a plan that was to be peeked at; none for a check that a full server did not
/// decide, because it has no key.
pub fn peeks(
    plan: &[Check<'_>],
    reply: &Reply,
) -> Result<SmallVec<[Option<Decision>; 4]>, BadReply> {
    let mut answers = Answers::read(plan, reply)?;
    let peek = |(index, check): (usize, &Check<'_>)| {
        let peek = answers.peek(index, check);
        answers.commit(index, check, peek, Step::Leave).decision
    };
    Ok(plan.iter().enumerate().map(peek).collect())
}

/// A quota's state when a script refused a check.
#[derive(Debug)]
pub struct RefusedState {
    /// The state.
    pub state: StateReply,
    /// The server's time, later by the partition's phase.
    pub now: Timestamp,
    /// When the check was decided: `now`, or later if time stood still.
    pub at: Timestamp,
}

/// Reads the states of the checks that do not fit; none for the others.
pub fn refused(
    plan: &[Check<'_>],
    reply: &Reply,
) -> Result<SmallVec<[Option<RefusedState>; 4]>, BadReply> {
    let answers = Answers::read(plan, reply)?;
    let refused = |(check, reply): (&Check<'_>, Option<CheckReply>)| {
        let mut state = reply.filter(|reply| !reply.fits)?.state;
        let now = answers.now + check.quota.phase(check.partition_id);
        let at = state.arrive(check.quota, now);
        Some(RefusedState { state, now, at })
    };
    Ok(plan.iter().zip(answers.checks).map(refused).collect())
}

/// Appends one enforced check as `lua/prelude.lua` describes it: its room is what may be used already
/// for `asked` to fit.
pub(super) fn put_check(
    argument: &mut Vec<u8>,
    quota: &Quota,
    phase: Micros,
    (cost, asked): (u64, u64),
) {
    let counts_all = quota.count == Count::All;
    let room = signed(quota.limit) - signed(asked);
    let (algorithm, cost, room, x, y) = match quota.algorithm {
        Algorithm::FixedWindow => {
            let algorithm = if quota.align == Align::First { 8 } else { 1 };
            (algorithm, cost, room, quota.window.0, phase.0)
        }
        // Where its windows stand is put in once that is known.
        Algorithm::Calendar(_) => (7, cost, room, 0, 0),
        Algorithm::SlidingWindow {
            buckets: quota_buckets,
            oldest,
        } => {
            let buckets = u64::from(quota_buckets);
            let (first, bits) = if is_long(quota_buckets) {
                (9, 9)
            } else {
                (2, 7)
            };
            let algorithm = first
                + match oldest {
                    OldestBucket::Weighted => 0,
                    OldestBucket::Whole => 1,
                    OldestBucket::Dropped => 2,
                };
            let width_us = quota.window.0 / buckets;
            (algorithm, cost, room, width_us, buckets | phase.0 << bits)
        }
        Algorithm::SlidingLog => (5, cost, room, quota.window.0, quota.limit),
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            let interval_us = quota.interval_us();
            let burst_us = quota.burst_us();
            let taken_us = cost.saturating_mul(interval_us);
            let room_us = signed(burst_us) - signed(asked.saturating_mul(interval_us));
            (6, taken_us, room_us, burst_us, 0)
        }
    };
    argument.extend([algorithm, if counts_all { COUNTS_ALL } else { 0 }]);
    put_number(argument, cost);
    argument.extend(room.to_be_bytes());
    put_number(argument, x);
    put_number(argument, y);
}

/// Appends the windows of calendars around the server's time behind all checks, the first of which stands at `first`, and
/// puts where they stand into their checks.
pub(super) fn put_calendars<'q>(
    argument: &mut Vec<u8>,
    first: usize,
    quotas: impl Iterator<Item = &'q Quota>,
    now: &impl Fn() -> Timestamp,
) {
    for (index, quota) in quotas.enumerate() {
        let Algorithm::Calendar(calendar) = quota.algorithm else {
            continue;
        };
        let x_at = first + index * CHECK_BYTES + CHECK_X;
        let place = argument.len() as u64 + 1;
        argument[x_at..x_at + 7].copy_from_slice(&place.to_be_bytes()[1..]);
        let Windows {
            previous,
            current,
            next,
        } = calendar.windows(now());
        for edge in [previous.start, current.start, next.start, next.end] {
            put_number(argument, edge.0);
        }
        for number in [previous.number, current.number, next.number] {
            argument.extend(number.to_be_bytes());
        }
    }
}

/// Returns a number that may be subtracted; [`NUMBER_MAX`] if it is larger.
fn signed(number: u64) -> i64 {
    number.min(NUMBER_MAX).cast_signed()
}

/// Appends a number in seven bytes; [`NUMBER_MAX`] if it is larger.
pub(super) fn put_number(argument: &mut Vec<u8>, number: u64) {
    argument.extend_from_slice(&number.min(NUMBER_MAX).to_be_bytes()[1..]);
}

/// What a script said of each check, as a ledger: the plan is decided once more here, from the states
/// after the step.
struct Answers {
    now: Timestamp,
    is_admitted: bool,
    checks: SmallVec<[Option<CheckReply>; 4]>,
}

/// What a script said of a check that it decided.
struct CheckReply {
    state: StateReply,
    fits: bool,
}

impl Answers {
    fn read(plan: &[Check<'_>], reply: &Reply) -> Result<Self, BadReply> {
        let mut reader = ReplyReader(&reply.plan);
        let is_admitted = boolean(&mut reader)?;
        let mut checks = SmallVec::new();
        for check in plan {
            let fits = reader.number(1)?;
            let length = reader.length()?;
            let facts = reader.bytes(length)?;
            checks.push(match fits {
                0 | 1 => Some(CheckReply {
                    state: StateReply::read(check.quota, facts)?,
                    fits: fits == 1,
                }),
                UNDECIDED if facts.is_empty() => None,
                _ => return Err(BadReply),
            });
        }
        reader.end()?;
        Ok(Self {
            now: reply.time,
            is_admitted,
            checks,
        })
    }
}

impl Ledger for Answers {
    fn peek(&mut self, index: usize, check: &Check<'_>) -> Peek {
        match &mut self.checks[index] {
            Some(reply) => Peek {
                at: (reply.state).arrive(
                    check.quota,
                    self.now + check.quota.phase(check.partition_id),
                ),
                admit: reply.fits,
            },
            None => Peek {
                at: self.now,
                admit: true,
            },
        }
    }

    fn commit(&mut self, index: usize, check: &Check<'_>, peek: Peek, step: Step) -> CheckResult {
        let Some(CheckReply { state, .. }) = &self.checks[index] else {
            return CheckResult::default();
        };
        let charged = || state.latest_charge(check.quota, check.cost, peek.at);
        CheckResult {
            decision: Some(state.decision(check.quota, check.cost, peek.at, peek.admit)),
            charged: (step == Step::Charge).then(charged),
        }
    }
}

fn boolean(reader: &mut ReplyReader<'_>) -> Result<bool, BadReply> {
    match reader.number(1)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(BadReply),
    }
}

/// The flags of a check.
const NEVER_REFUSES: u8 = 1;
const BEGINS_POLICY: u8 = 2;
const CANDIDATE: u8 = 4;
const COUNTS_ALL: u8 = 8;
/// Says whether a window has so many buckets that seven bits below its phase, which may be a year of microseconds, do
/// not say how many; a double holds 53. Then buckets are shorter, and nine bits do.
pub(super) fn is_long(buckets: u32) -> bool {
    buckets >= 128
}

const _: () = assert!(BUCKETS_MAX < 1 << 9);
/// What a script says of a check instead of whether its cost fits.
const UNDECIDED: u64 = 2;
/// Bytes of one check.
const CHECK_BYTES: usize = 31;
/// Where in a check its x stands.
const CHECK_X: usize = 17;
/// The largest number that is sent, which a double just holds. Any larger one means the same.
const NUMBER_MAX: u64 = 1 << 53;
