//! Plans as arguments of the scripts in `lua/`, and their replies as answers.

use smallvec::SmallVec;

/// A script of `lua/`, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Decides plans, each all or nothing, or looks at them.
    Decide,
    /// Gives back, spends more, or forgets.
    Settle,
    /// Notes that this node is alive, and counts those that are.
    Announce,
}

impl Script {
    /// All of them: each is loaded before a connection is used.
    pub const ALL: [Self; 3] = [Self::Decide, Self::Settle, Self::Announce];

    /// The text as it is loaded.
    pub fn source(self) -> &'static str {
        unimplemented!("{self:?}")
    }

    /// Forty hex digits of its SHA-1.
    pub fn sha(self) -> &'static str {
        unimplemented!("{self:?}")
    }
}

/// A plan, or the part of one that is kept on one server, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// One key per ask.
    pub keys: SmallVec<[Box<[u8]>; 2]>,
    /// What the script is told of it.
    pub argument: Vec<u8>,
}

/// What a script says to one [`Packed`]: bytes that [`verdict`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply(pub(super) Vec<u8>);
