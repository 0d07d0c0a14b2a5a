//! Reads the states that scripts reply into those of the pure functions. A script may have merged entries of a log, if
//! that does not change the answer. Units in flight are those of all gateways.

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
use crate::limit::{Algorithm, AnyState, Quota};
use crate::store::holder::{GatewayId, Holder};

/// Reads a quota's state from a script's reply.
pub(super) fn read_state(quota: &Quota, bytes: &[u8]) -> Result<AnyState, BadReply> {
    if bytes.is_empty() {
        return Ok(AnyState::new(quota));
    }
    let mut reader = ReplyReader(bytes);
    let state = match quota.algorithm {
        Algorithm::InFlight => {
            let held = InFlight::new(reader.number(7)?);
            reader.bytes(reader.0.len())?;
            AnyState::InFlight(held)
        }
        Algorithm::Penalty { .. } => {
            AnyState::Penalty(Penalty::new(reader.time()?, Micros(reader.number(7)?)))
        }
        Algorithm::Credits { .. } => {
            AnyState::Credits(Credits::new(reader.number(8)?.cast_signed()))
        }
        Algorithm::FixedWindow => {
            AnyState::FixedWindow(FixedWindow::new(reader.time()?, reader.number(7)?))
        }
        Algorithm::Calendar(_) => {
            let number = reader.number(4)?.try_into().map_err(|_| BadReply)?;
            AnyState::CalendarWindow(CalendarWindow::new(number, reader.number(7)?))
        }
        Algorithm::SlidingWindow { buckets, .. } => {
            let width_us = quota.window.0 / u64::from(buckets);
            let index_bytes = if is_long(buckets) { 2 } else { 1 };
            AnyState::SlidingWindow(sliding_window(&mut reader, width_us, index_bytes)?)
        }
        Algorithm::SlidingLog => AnyState::SlidingLog(sliding_log(&mut reader)?),
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => AnyState::Gcra(Gcra::new(
            reader.time()?,
            reader.time()?,
            reader.number(7)?,
            reader.number(7)?,
        )),
    };
    reader.end()?;
    Ok(state)
}

/// Reads what the scripts in `lua/sliding_window` reply: the window's value as it is stored.
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

/// Reads what `facts_of` in `lua/sliding_log` returns.
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

/// Reads which gateways hold units, from a reply that begins with how many all of them hold.
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

/// The latest time at which a bucket may begin, in µs: a double holds all integers up to it.
const TIME_MAX: u64 = 1 << 53;
