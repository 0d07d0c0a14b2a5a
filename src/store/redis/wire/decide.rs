//! Plans for the decide script, and its replies.

use smallvec::SmallVec;

use super::facts::{Facts, Reader};
use super::{BadReply, Names, Packed, Reply};
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{self, Ledger, Look, Mode, Step};
use crate::limit::{Algorithm, Ask, Count, Decision, Leaving, Quota, Verdict};

/// What a plan is packed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// To be decided, and charged.
    Decide,
    /// To be looked at only.
    Look,
}

/// Packs a plan of at most [`ASKS_MAX`](plan::ASKS_MAX) asks.
pub fn pack(plan: &[Ask<'_>], names: &Names, intent: Intent) -> Packed {
    let mut argument = Vec::with_capacity(2 + plan.len() * ASK_BYTES);
    let asks = u8::try_from(plan.len()).expect("the file bounds a plan");
    argument.extend([u8::from(intent == Intent::Look), asks]);
    for ask in plan {
        let flags_at = argument.len() + 1;
        put_ask(&mut argument, ask.quota, ask.cost, ask.cost);
        argument[flags_at] |= u8::from(ask.mode == Mode::Shadow);
    }
    Packed {
        keys: (plan.iter())
            .map(|ask| names.key(ask.slot, ask.tag))
            .collect(),
        argument,
    }
}

/// Reads what the script said to a plan that was to be decided.
pub fn verdict(plan: &[Ask<'_>], reply: &Reply) -> Result<Verdict, BadReply> {
    let mut answers = Answers::read(plan, reply)?;
    let verdict = plan::decide(&mut answers, plan);
    // Both sides have the same rule; a reply that breaks it is none.
    if verdict.admit != answers.is_admitted {
        return Err(BadReply);
    }
    Ok(verdict)
}

/// Reads what the script said to a plan that was to be looked at.
pub fn looks(plan: &[Ask<'_>], reply: &Reply) -> Result<SmallVec<[Decision; 4]>, BadReply> {
    let mut answers = Answers::read(plan, reply)?;
    let look = |(index, ask): (usize, &Ask<'_>)| {
        let look = answers.look(index, ask);
        let (facts, _) = &answers.asks[index];
        facts.decision(ask.quota, ask.cost, look.at, look.admit)
    };
    Ok(plan.iter().enumerate().map(look).collect())
}

/// Appends one enforced ask as `lua/prelude.lua` describes it, with the room that is left for
/// `asked`.
pub(super) fn put_ask(argument: &mut Vec<u8>, quota: &Quota, cost: u64, asked: u64) {
    let room = quota.limit.checked_sub(asked);
    let (algorithm, cost, room, x, y) = match quota.algorithm {
        Algorithm::FixedWindow => (1, cost, room, quota.window.0, 0),
        Algorithm::SlidingWindow { buckets, leaving } => {
            let buckets = u64::from(buckets);
            let algorithm = match leaving {
                Leaving::Weighted => 2,
                Leaving::Whole => 3,
                Leaving::Dropped => 4,
            };
            (algorithm, cost, room, quota.window.0 / buckets, buckets)
        }
        Algorithm::SlidingLog => (5, cost, room, quota.window.0, quota.limit),
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
            let interval_us = quota.interval_us();
            let burst_us = quota.capacity() * interval_us;
            let taken_us = cost.saturating_mul(interval_us);
            let room_us = burst_us.checked_sub(asked.saturating_mul(interval_us));
            (6, taken_us, room_us, 2 * burst_us, 0)
        }
    };
    let counts_all = quota.count == Count::All;
    argument.extend([algorithm, u8::from(counts_all) << 1]);
    put_number(argument, cost);
    let room = room.map_or(-1, |room| room.min(NUMBER_MAX).cast_signed());
    argument.extend(room.to_be_bytes());
    put_number(argument, x);
    put_number(argument, y);
}

/// Appends a number in seven bytes; larger ones than a double can hold as the largest it can.
pub(super) fn put_number(argument: &mut Vec<u8>, number: u64) {
    argument.extend_from_slice(&number.min(NUMBER_MAX).to_be_bytes()[1..]);
}

/// What a script said of each ask, as a ledger: the plan is decided once more, from the states
/// after the step.
struct Answers {
    now: Timestamp,
    is_admitted: bool,
    asks: SmallVec<[(Facts, bool); 4]>,
}

impl Answers {
    fn read(plan: &[Ask<'_>], reply: &Reply) -> Result<Self, BadReply> {
        let mut reader = Reader(&reply.0);
        let now = reader.time()?;
        let is_admitted = boolean(&mut reader)?;
        let mut asks = SmallVec::new();
        for ask in plan {
            let fits = boolean(&mut reader)?;
            let length = usize::try_from(reader.number(2)?).expect("two bytes fit");
            asks.push((Facts::read(ask.quota, reader.bytes(length)?)?, fits));
        }
        reader.end()?;
        Ok(Self {
            now,
            is_admitted,
            asks,
        })
    }
}

impl Ledger for Answers {
    fn look(&mut self, index: usize, ask: &Ask<'_>) -> Look {
        let (facts, fits) = &mut self.asks[index];
        Look {
            at: facts.arrive(ask.quota, self.now),
            admit: *fits,
        }
    }

    fn commit(&mut self, index: usize, ask: &Ask<'_>, look: Look, step: Step) -> Option<Decision> {
        let (facts, _) = &self.asks[index];
        let wait = match step {
            Step::Charge => facts.wait(ask.quota, ask.cost, look.at),
            Step::Leave => Micros(0),
        };
        let decision = facts.decision(ask.quota, ask.cost, look.at, look.admit);
        Some(Decision { wait, ..decision })
    }
}

fn boolean(reader: &mut Reader<'_>) -> Result<bool, BadReply> {
    match reader.number(1)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(BadReply),
    }
}

/// Bytes of one ask.
const ASK_BYTES: usize = 31;
/// The largest number that is sent; all that is larger means the same.
const NUMBER_MAX: u64 = 1 << 53;
