//! Reads the states that scripts reply into those of the pure functions.

use smallvec::SmallVec;

use super::bad_reply::BadReply;
use super::checks::is_long;
use crate::clock::{Micros, Timestamp};
use crate::limit::calendar_window::CalendarWindow;
use crate::limit::credits::Credits;
use crate::limit::fixed_window::FixedWindow;
use crate::limit::gcra::Gcra;
use crate::limit::in_flight::InFlight;
use crate::limit::penalty::Penalty;
use crate::limit::sliding_log::SlidingLog;
use crate::limit::sliding_window::SlidingWindow;
use crate::limit::{Algorithm, Charged, Decision, Quota, State};
use crate::store::holder::{GatewayId, Holder};

/// The state of one check after a step, as a script replied it.
#[derive(Clone, Debug)]
pub enum StateReply {
    /// The whole state.
    FixedWindow(FixedWindow),
    /// The whole state.
    CalendarWindow(CalendarWindow),
    /// The whole state.
    SlidingWindow(SlidingWindow),
    /// The script may have merged entries that make no difference to the answer.
    SlidingLog(SlidingLog),
    /// The whole state.
    Gcra(Gcra),
    /// The whole state.
    Credits(Credits),
    /// The whole state.
    Penalty(Penalty),
    /// The units of all gateways.
    InFlight(InFlight),
}

/// Calls a method of whichever state there is.
macro_rules! state {
    ($reply:expr, $state:ident => $call:expr) => {
        match $reply {
            Self::FixedWindow($state) => $call,
            Self::CalendarWindow($state) => $call,
            Self::SlidingWindow($state) => $call,
            Self::SlidingLog($state) => $call,
            Self::Gcra($state) => $call,
            Self::Credits($state) => $call,
            Self::Penalty($state) => $call,
            Self::InFlight($state) => $call,
        }
    };
}

impl StateReply {
    /// Reads a quota's state from a script's reply.
    pub(super) fn read(quota: &Quota, bytes: &[u8]) -> Result<Self, BadReply> {
        if bytes.is_empty() {
            return Ok(Self::whole(quota));
        }
        let mut reader = ReplyReader(bytes);
        let state = match quota.algorithm {
            Algorithm::InFlight => {
                let held = InFlight::new(reader.number(7)?);
                reader.bytes(reader.0.len())?;
                Self::InFlight(held)
            }
            Algorithm::Penalty { .. } => {
                Self::Penalty(Penalty::new(reader.time()?, Micros(reader.number(7)?)))
            }
            Algorithm::Credits { .. } => {
                Self::Credits(Credits::new(reader.number(8)?.cast_signed()))
            }
            Algorithm::FixedWindow => {
                Self::FixedWindow(FixedWindow::new(reader.time()?, reader.number(7)?))
            }
            Algorithm::Calendar(_) => {
                let number = reader.number(4)?.try_into().map_err(|_| BadReply)?;
                Self::CalendarWindow(CalendarWindow::new(number, reader.number(7)?))
            }
            Algorithm::SlidingWindow { buckets, .. } => {
                let width_us = quota.window.0 / u64::from(buckets);
                let index_bytes = if is_long(buckets) { 2 } else { 1 };
                Self::SlidingWindow(sliding_window(&mut reader, width_us, index_bytes)?)
            }
            Algorithm::SlidingLog => Self::SlidingLog(sliding_log(&mut reader)?),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Self::Gcra(Gcra::new(
                reader.time()?,
                reader.time()?,
                reader.number(7)?,
                reader.number(7)?,
            )),
        };
        reader.end()?;
        Ok(state)
    }

    /// Makes the state of a quota of which nothing is used.
    pub fn whole(quota: &Quota) -> Self {
        match quota.algorithm {
            Algorithm::FixedWindow => Self::FixedWindow(FixedWindow::default()),
            Algorithm::Calendar(_) => Self::CalendarWindow(CalendarWindow::default()),
            Algorithm::SlidingWindow { .. } => Self::SlidingWindow(SlidingWindow::default()),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::default()),
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => Self::Gcra(Gcra::default()),
            Algorithm::Credits { .. } => Self::Credits(Credits::default()),
            Algorithm::Penalty { .. } => Self::Penalty(Penalty::default()),
            Algorithm::InFlight => Self::InFlight(InFlight::default()),
        }
    }

    /// Brings the state to the server's time, and returns the time to decide at.
    pub fn arrive(&mut self, quota: &Quota, now: Timestamp) -> Timestamp {
        state!(self, state => state.arrive(quota, now))
    }

    /// Describes the state for a request of `cost` that was admitted or not.
    pub fn decision(&self, quota: &Quota, cost: u64, at: Timestamp, admit: bool) -> Decision {
        state!(self, state => state.decision(quota, cost, at, admit))
    }

    /// Says whether `cost` fits at `at`, to which the state was brought.
    pub fn admits(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        state!(self, state => state.admits(quota, cost, at))
    }

    /// Says whether `cost` fits at `at`, which is no earlier than when the state was read.
    pub fn admits_later(&self, quota: &Quota, cost: u64, at: Timestamp) -> bool {
        match self {
            // These do not look at the time.
            Self::FixedWindow(window) => admits_later(window, quota, cost, at),
            Self::CalendarWindow(window) => admits_later(window, quota, cost, at),
            other => other.admits(quota, cost, at),
        }
    }

    /// Spends `cost` at `at`, whether it fits or not.
    pub fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        state!(self, state => state.charge(quota, cost, at))
    }

    /// Spends `amount` without asking, in the window or the bucket of the charge `then`.
    pub fn spend_then(&mut self, quota: &Quota, amount: u64, then: Charged, at: Timestamp) {
        state!(self, state => state.spend_then(quota, amount, then, at));
    }

    /// Gives back `amount` units of a charge.
    pub fn release(&mut self, quota: &Quota, charged: Charged, amount: u64, at: Timestamp) {
        state!(self, state => state.release(quota, charged, amount, at));
    }

    /// Says whether nothing that is used counts at `at`.
    pub fn is_whole(&self, quota: &Quota, at: Timestamp) -> bool {
        state!(self, state => state.is_whole(quota, at))
    }

    /// Describes the charge of `cost` that the step made.
    pub(super) fn latest_charge(&self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        match self {
            Self::FixedWindow(window) => window.latest_charge(quota, cost, at),
            Self::CalendarWindow(window) => window.latest_charge(cost, at),
            Self::Gcra(gcra) => gcra.latest_charge(quota, cost, at),
            Self::SlidingWindow(_)
            | Self::SlidingLog(_)
            | Self::Credits(_)
            | Self::Penalty(_)
            | Self::InFlight(_) => Charged::plain(at, cost),
        }
    }
}

/// Says whether `cost` fits once a state has been brought to `at`.
fn admits_later<S: State + Clone>(state: &S, quota: &Quota, cost: u64, at: Timestamp) -> bool {
    let mut state = state.clone();
    let at = state.arrive(quota, at);
    state.admits(quota, cost, at)
}

/// Reads what `lua/sliding_window.lua` replies: its value as it is stored.
fn sliding_window(
    reader: &mut ReplyReader<'_>,
    width_us: u64,
    index_bytes: usize,
) -> Result<SlidingWindow, BadReply> {
    let units_bytes = match reader.number(1)? {
        4 => 4,
        7 => 7,
        _ => return Err(BadReply),
    };
    let newest = reader.number(7)?;
    let _total = reader.number(7)?;
    let mut buckets = SmallVec::<[(u64, u64); 12]>::new();
    while !reader.0.is_empty() {
        let low = reader.number(index_bytes)?;
        let age = newest.wrapping_sub(low) & ((1 << (8 * index_bytes)) - 1);
        let index = newest.checked_sub(age).ok_or(BadReply)?;
        buckets.push((index, reader.number(units_bytes)?));
    }
    let is_newest_last = buckets.last().is_some_and(|&(index, _)| index == newest);
    let is_sound = is_newest_last
        && buckets.is_sorted_by(|one, next| one.0 < next.0)
        && newest <= TIME_MAX / width_us;
    if !is_sound {
        return Err(BadReply);
    }
    Ok(SlidingWindow::new(&buckets))
}

/// Reads what `facts` in `lua/sliding_log.lua` makes.
fn sliding_log(reader: &mut ReplyReader<'_>) -> Result<SlidingLog, BadReply> {
    let sum = reader.number(7)?;
    let newest = reader.time()?;
    let mut entries = SmallVec::<[(Timestamp, u64); 3]>::new();
    let mut rest = sum;
    while !reader.0.is_empty() {
        let entry = (reader.time()?, reader.number(7)?);
        rest = rest.checked_sub(entry.1).ok_or(BadReply)?;
        entries.push(entry);
    }
    if rest > 0 {
        entries.push((newest, rest));
    }
    let is_sound = !entries.is_empty()
        && entries.iter().all(|&(_, units)| units > 0)
        && entries.is_sorted_by_key(|&(at, _)| at);
    if !is_sound {
        return Err(BadReply);
    }
    Ok(SlidingLog::new(entries))
}

/// Reads which gateways hold units, behind how many all hold.
pub(super) fn holders(facts: &[u8]) -> Result<Vec<Holder>, BadReply> {
    let mut reader = ReplyReader(facts);
    reader.number(7)?;
    let mut holders = Vec::new();
    while !reader.0.is_empty() {
        let gateway = GatewayId::new(reader.number(7)?);
        let units = reader.number(7)?;
        reader.bytes(21)?;
        if units > 0 {
            holders.push(Holder { gateway, units });
        }
    }
    Ok(holders)
}

/// Reads big-endian numbers.
pub(super) struct ReplyReader<'b>(pub(super) &'b [u8]);

impl<'b> ReplyReader<'b> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'b [u8], BadReply> {
        let (head, tail) = self.0.split_at_checked(count).ok_or(BadReply)?;
        self.0 = tail;
        Ok(head)
    }

    /// Reads a number of at most eight bytes.
    pub(super) fn number(&mut self, bytes: usize) -> Result<u64, BadReply> {
        let digits = self.bytes(bytes)?;
        Ok(digits
            .iter()
            .fold(0, |number, &digit| number << 8 | u64::from(digit)))
    }

    /// Reads a length, which has two bytes.
    pub(super) fn length(&mut self) -> Result<usize, BadReply> {
        let length = self.number(2)?;
        Ok(usize::try_from(length).expect("two bytes fit"))
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, BadReply> {
        self.number(7).map(Timestamp)
    }

    pub(super) fn end(self) -> Result<(), BadReply> {
        match self.0 {
            [] => Ok(()),
            _ => Err(BadReply),
        }
    }
}

/// The last time at which a bucket may begin: what a double holds.
const TIME_MAX: u64 = 1 << 53;
