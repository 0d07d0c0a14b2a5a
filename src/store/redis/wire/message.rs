//! What is sent to a script, and what it replies: bytes.

use bytes::{Buf, Bytes};
use smallvec::SmallVec;

use super::bad_reply::BadReply;
use super::script::Script;
use super::state_reply::ReplyReader;
use crate::clock::Timestamp;

/// A plan that is in one slot or on one server, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The script that decides it in a call of its own; [`Script::Decide`] decides several in one.
    pub script: Script,
    /// One key per check.
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    /// The script's argument.
    pub argument: Vec<u8>,
}

impl Packed {
    /// Returns how many checks it has.
    pub fn checks(&self) -> usize {
        self.keys.len()
    }
}

/// What the decide script replies to one [`Packed`]; [`verdict`](super::verdict) and
/// [`peeks`](super::peeks) read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// When it was decided.
    pub time: Timestamp,
    /// Whether it is admitted, and what is said of each check.
    pub plan: Bytes,
}

impl Reply {
    /// Says whether nothing was decided, because the windows of a calendar that were sent are not those around the
    /// server's time.
    pub fn is_outside(&self) -> bool {
        *self.plan == [OUTSIDE]
    }
}

/// What the decide script replies to a call: to each plan in its order.
#[derive(Clone, Debug)]
pub struct Replies {
    time: Timestamp,
    rest: Bytes,
}

/// Why there is no reply to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The server could not decide it, and says why.
    Failed(String),
    /// What the script replied to the call has another form.
    Bad,
}

impl Replies {
    /// Begins to read what the script replied.
    ///
    /// # Errors
    /// If it has another form.
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
    /// If there is none. After [`PlanError::Bad`] there is none to the other plans either.
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

    /// Says whether all has been read.
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
    /// Where the text of the error begins, too.
    Failed {
        text: usize,
        end: usize,
    },
}

/// What a script says of a plan that it could not decide, instead of whether it is admitted.
const FAILED: u64 = 2;
/// What a script says of a plan instead, if the windows of a calendar that were sent are not those around its time.
const OUTSIDE: u8 = 3;

/// Renders the first argument of the scripts that decide and settle: the time to decide at. It is left
/// out for the server's own.
pub fn time_argument(at: Option<Timestamp>) -> Option<Vec<u8>> {
    at.map(|at| at.0.to_string().into_bytes())
}
