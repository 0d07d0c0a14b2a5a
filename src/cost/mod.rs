//! What a body tells of a request's cost: numbers at JSON Pointers, added up exactly.
//!
//! [`BodyReader`] sees a body in the pieces in which it passes by, and keeps no text of it: no event, no
//! string, no tree. All pointers of a route are one tree of keys ([`Pointers`]), and a document is a walk
//! along that tree, so the reader's state is where it stands there, and one number of each pointer: the
//! largest so far. What no pointer leads into is skipped by counting brackets ([`skip`]).
//!
//! [`Sum`] makes a cost of the numbers: a [`Decimal`] each, times a [`Weight`], rounded up once.
//!
//! Not here: which bodies are read, and what an answer costs that did not tell.

mod body;
mod decimal;
mod documents;
mod events;
mod key;
mod pointers;
mod skip;
mod sum;
#[cfg(test)]
mod tests;
mod weight;

pub use self::body::{BodyFormat, BodyReader, Reading};
pub use self::decimal::{Decimal, NUMBER_BYTES_MAX};
pub use self::pointers::{
    BadPointer, JsonPointer, KEY_BYTES_MAX, KEYS_MAX, POINTERS_MAX, Pointers, TooManyPointers,
};
pub use self::sum::{Cost, Missing, Sum, Term};
pub use self::weight::{BadWeight, Weight};
