//! Packs plans for the decide script, and reads its replies.

use smallvec::SmallVec;

use super::bad_reply::BadReply;
use super::checks::{CHECK_BYTES, put_calendars, put_check, put_gateway};
use super::message::{Packed, Reply};
use super::names::KeyNames;
use super::script::Script;
use super::state_reply::{self, ReplyReader, read_state};
use crate::clock::Timestamp;
use crate::limit::plan::{self, CheckMode, Ledger, Peek, Step};
use crate::limit::{AnyState, Check, CheckResult, Decision, Verdict};
use crate::store::holder::{GatewayId, Holder};

/// What the script is to do with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Decide the plan, and charge it if it is admitted.
    Decide,
    /// Only say what the plan would be answered.
    Peek,
}

/// The gateway that asks for units in flight, and the sequence numbers with which it asks.
#[derive(Clone, Debug)]
pub struct AskingGateway {
    /// The gateway.
    pub gateway: GatewayId,
    /// One sequence number for each check of units in flight, in the order of the checks.
    pub sequences: Vec<u64>,
}

/// Packs a plan of at most [`CHECKS_MAX`](plan::CHECKS_MAX) checks. `asking` is needed only to decide a plan with units
/// in flight. `now` returns roughly the server's time; it is called only for calendars.
pub fn pack(
    plan: &[Check<'_>],
    names: &KeyNames,
    intent: Intent,
    asking: Option<&AskingGateway>,
    now: impl Fn() -> Timestamp,
) -> Packed {
    let mut argument = Vec::with_capacity(2 + plan.len() * CHECK_BYTES);
    let checks = u8::try_from(plan.len()).expect("the file bounds a plan");
    argument.extend([u8::from(intent == Intent::Peek), checks]);
    let (mut policy, mut has_units) = (None, false);
    for check in plan {
        has_units |= check.quota.is_in_flight();
        let flags_at = argument.len() + 1;
        let phase = check.quota.phase(check.partition_id);
        let asked = check.cost;
        put_check(&mut argument, check.quota, phase, (asked, asked));
        argument[flags_at] |= match check.mode {
            CheckMode::Enforce => 0,
            CheckMode::Shadow => NEVER_REFUSES,
            CheckMode::Candidate => NEVER_REFUSES | CANDIDATE,
            CheckMode::Spill => NEVER_REFUSES | SPILL,
        };
        if policy.replace(check.policy) != Some(check.policy) {
            argument[flags_at] |= BEGINS_POLICY;
        }
    }
    put_calendars(&mut argument, 2, plan.iter().map(|check| check.quota), &now);
    if has_units {
        put_units(&mut argument, plan, asking);
    }
    Packed {
        script: Script::for_plan(plan),
        keys: (plan.iter())
            .map(|check| names.key(check.series_id, check.partition_id))
            .collect(),
        argument,
    }
}

/// Appends the gateway that asks for the units in flight of a plan. A peek has no sequence number, so it gets the
/// largest one, as if it were newer than everything that was announced.
fn put_units(argument: &mut Vec<u8>, plan: &[Check<'_>], asking: Option<&AskingGateway>) {
    let gateway = asking.map_or_else(GatewayId::default, |asking| asking.gateway);
    let mut sequences = asking.map_or(&[][..], |asking| &asking.sequences).iter();
    let checks = plan.iter().enumerate();
    for (index, check) in checks.filter(|(_, check)| check.quota.is_in_flight()) {
        let sequence = sequences.next().copied().unwrap_or(u64::MAX);
        let at = 2 + index * CHECK_BYTES;
        put_gateway(argument, at, gateway, check.cost, sequence);
    }
}

/// Reads the reply to a plan that was to be decided into `verdict`, which must be empty.
///
/// A check that a full server did not decide, because it has no key, has neither decision nor charge,
/// and the plan is decided as if that check were not part of it.
///
/// # Errors
/// If the reply is one that the script never gives; the verdict then means nothing.
pub fn verdict(plan: &[Check<'_>], reply: &Reply, verdict: &mut Verdict) -> Result<(), BadReply> {
    let mut answers = Answers::read(plan, reply)?;
    plan::decide(&mut answers, plan, verdict);
    // Both sides follow the same rule, so the script gives no reply that breaks it.
    if verdict.admit != answers.is_admitted {
        return Err(BadReply);
    }
    Ok(())
}

/// Reads the reply to a plan that was to be peeked at. A check that a full server did not decide, because
/// it has no key, has no decision.
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

/// Returns, for each check of a plan that was peeked at, the gateways that hold units in flight.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn holders(plan: &[Check<'_>], reply: &Reply) -> Result<SmallVec<[Vec<Holder>; 4]>, BadReply> {
    let mut reader = ReplyReader(&reply.plan);
    reader.number(1)?;
    let mut all = SmallVec::new();
    for check in plan {
        reader.number(1)?;
        let length = reader.length()?;
        let facts = reader.bytes(length)?;
        all.push(if check.quota.is_in_flight() && !facts.is_empty() {
            state_reply::holders(facts)?
        } else {
            Vec::new()
        });
    }
    Ok(all)
}

/// Reads the states of the checks of a plan that was decided; none for a check that a full server did not decide.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn states(
    plan: &[Check<'_>],
    reply: &Reply,
) -> Result<SmallVec<[Option<AnyState>; 4]>, BadReply> {
    let checks = Answers::read(plan, reply)?.checks.into_iter();
    Ok(checks.map(|reply| Some(reply?.state)).collect())
}

/// A quota's state after a script refused a check of it.
#[derive(Debug)]
pub struct RefusedState {
    /// The state after the step, brought up to `at`.
    pub state: AnyState,
    /// The server's time, plus the partition's phase.
    pub now: Timestamp,
    /// When the check was decided: `now`, or the newest time in the state if that is a little ahead.
    pub at: Timestamp,
}

/// Reads the states of the checks that refuse; none for the others.
pub fn refused(
    plan: &[Check<'_>],
    reply: &Reply,
) -> Result<SmallVec<[Option<RefusedState>; 4]>, BadReply> {
    let answers = Answers::read(plan, reply)?;
    let refused = |(check, reply): (&Check<'_>, Option<CheckReply>)| {
        let CheckReply { mut state, fits } = reply?;
        let now = answers.now + check.quota.phase(check.partition_id);
        let at = state.arrive(check.quota, now);
        // A penalty that the plan began refuses from then on.
        let refuses = !fits || check.quota.is_penalty() && !state.admits(check.quota, 0, at);
        refuses.then_some(RefusedState { state, now, at })
    };
    Ok(plan.iter().zip(answers.checks).map(refused).collect())
}

/// What a script answered to each check, as a ledger: the plan is decided once more here, from the
/// states after the step.
struct Answers {
    now: Timestamp,
    is_admitted: bool,
    checks: SmallVec<[Option<CheckReply>; 4]>,
}

/// What a script answered to a check that it decided.
struct CheckReply {
    state: AnyState,
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
                    state: read_state(check.quota, facts)?,
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
            // A check that was not decided refuses nothing, but as a spill, it takes nothing either.
            None => Peek {
                at: self.now,
                admit: check.mode != CheckMode::Spill,
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
const SPILL: u8 = 16;
/// What a script answers to a check, instead of whether its cost fits, if it did not decide it.
const UNDECIDED: u64 = 2;
