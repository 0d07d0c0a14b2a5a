//! The bytes that are sent to a script, and those that it replies.

use bytes::{Buf, Bytes};
use smallvec::SmallVec;

use super::bad_reply::BadReply;
use super::script::Script;
use super::state_reply::ReplyReader;
use crate::clock::Timestamp;

/// A plan whose keys are in one slot or on one server, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The script that decides the plan in a call of its own; [`Script::Decide`] decides several in one call.
    pub script: Script,
    /// One key per check.
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    /// The script's argument that describes the plan.
    pub argument: Vec<u8>,
}

impl Packed {
    /// Returns how many checks the plan has.
    pub fn checks(&self) -> usize {
        self.keys.len()
    }
}

/// What the decide script replies to one [`Packed`]; [`verdict`](super::verdict) and
/// [`peeks`](super::peeks) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When the plan was decided.
    pub time: Timestamp,
    /// The bytes of the reply: whether the plan is admitted, and the answer to each check.
    pub plan: Bytes,
}

impl Reply {
    /// Says whether nothing was decided, because the windows of a calendar that were sent are not those around the
    /// server's time.
    pub fn is_outside(&self) -> bool {
        *self.plan == [OUTSIDE]
    }
}

/// What the decide script replies to a call: the replies to its plans, in their order.
#[derive(Clone, Debug)]
pub struct Replies {
    time: Timestamp,
    rest: Bytes,
}

/// Why there is no reply to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The server could not decide the plan; its error.
    Failed(String),
    /// The reply to the call does not have the form that the script gives it.
    Bad,
}

impl Replies {
    /// Begins to read the reply of the script.
    ///
    /// # Errors
    /// If the reply does not have the form that the script gives it.
    pub fn read(reply: Vec<u8>) -> Result<Self, BadReply> {
        let mut reader = ReplyReader(&reply);
        let time = reader.time()?;
        let read = reply.len() - reader.0.len();
        let mut rest = Bytes::from(reply);
        rest.advance(read);
        Ok(Self { time, rest })
    }

    /// Reads the reply to the next plan, which has this many checks.
    ///
    /// # Errors
    /// If the plan has no reply. After [`PlanError::Bad`], the other plans have none either.
    pub fn next(&mut self, checks: usize) -> Result<Reply, PlanError> {
        match self.end_of_next(checks) {
            Ok(PlanEnd::Decided(end)) => Ok(Reply {
                time: self.time,
                plan: self.rest.split_to(end),
            }),
            Ok(PlanEnd::Failed { text, end }) => {
                let failed = self.rest.split_to(end);
                let text = String::from_utf8_lossy(&failed[text..]).into_owned();
                Err(PlanError::Failed(text))
            }
            Err(BadReply) => {
                self.rest.clear();
                Err(PlanError::Bad)
            }
        }
    }

    /// Says whether the whole reply has been read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Finds where the reply to the next plan ends.
    fn end_of_next(&self, checks: usize) -> Result<PlanEnd, BadReply> {
        let mut reader = ReplyReader(&self.rest);
        let at = |reader: &ReplyReader<'_>| self.rest.len() - reader.0.len();
        let first = reader.number(1)?;
        if first == u64::from(OUTSIDE) {
            return Ok(PlanEnd::Decided(at(&reader)));
        }
        if first == FAILED {
            let length = reader.length()?;
            let text = at(&reader);
            reader.bytes(length)?;
            let end = at(&reader);
            return Ok(PlanEnd::Failed { text, end });
        }
        for _ in 0..checks {
            reader.number(1)?;
            let length = reader.length()?;
            reader.bytes(length)?;
        }
        Ok(PlanEnd::Decided(at(&reader)))
    }
}

/// Where the reply to a plan ends.
enum PlanEnd {
    Decided(usize),
    /// Also where the text of the error begins.
    Failed {
        text: usize,
        end: usize,
    },
}

/// The first byte of a plan's reply, instead of whether it is admitted, if the script could not decide it.
const FAILED: u64 = 2;
/// The whole reply to a plan if the windows of a calendar that were sent are not those around the server's time.
const OUTSIDE: u8 = 3;

/// Renders the first argument of the scripts that decide and settle: the time at which they do. It is
/// left out if the server's own time counts.
pub fn time_argument(at: Option<Timestamp>) -> Option<Vec<u8>> {
    at.map(|at| at.0.to_string().into_bytes())
}
