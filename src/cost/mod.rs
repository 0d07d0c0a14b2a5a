//! Costs that bodies report: numbers at JSON Pointers, added up exactly.
//!
//! [`NumberReader`] reads a body in the pieces in which it passes, and keeps no event and no document of it. All
//! pointers of a route form one tree of keys ([`Pointers`]), and reading a document is a walk along that tree. So the
//! reader's state is its place in the tree and what each pointer has found ([`findings`]): the largest number so far or
//! the last one, the sum of a list, whether a member is present, or a short text that selects prices. Values that no
//! pointer leads into are skipped by counting brackets ([`skip`]).
//!
//! [`Sum`] computes a cost from the numbers: each [`Decimal`] times a [`Weight`], added, and rounded up once.
//!
//! A [`PriceTable`] gives the terms of a sum other weights for each text in a request, such as the name of a model.
//!
//! [`BodyCost`] is how a policy charges by these numbers: it reserves units by what the request reports, and settles
//! them by what the response reports. If the response does not report its cost, the largest known amount is charged.
//!
//! Not here: which bodies are read, and where the units are counted.

mod body;
mod body_cost;
mod decimal;
mod documents;
mod events;
mod exact_sum;
mod findings;
mod json_pointer;
mod key;
mod pointers;
mod prices;
mod skip;
mod source;
mod steps;
mod sum;
#[cfg(test)]
mod tests;
mod tree;
mod weight;

pub use self::body::{BodyFormat, BodyNumbers, MemberPlace, NumberReader};
pub use self::body_cost::{Amount, BodyCost, MissingCost, RequestNeed, Settled};
pub use self::decimal::{Decimal, NUMBER_BYTES_MAX};
pub use self::findings::FoundText;
pub use self::json_pointer::{BadPointer, JsonPointer, KEY_BYTES_MAX, KEYS_MAX, PointerUse, Take};
pub use self::pointers::{BadPointers, POINTERS_MAX, Pointers};
pub use self::prices::{Factors, Others, PRICED_TEXT_MAX, PriceRow, PriceTable, Priced};
pub use self::source::{NumberIndex, NumberSource, Numbers};
pub use self::sum::{Cost, MissingTerm, Sum, Term};
pub use self::weight::{BadWeight, Weight};
