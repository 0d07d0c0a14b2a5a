//! What a body reports of a request's cost: numbers at JSON Pointers, added up exactly.
//!
//! [`NumberReader`] sees a body in the pieces in which it passes by, and keeps no event and no document of it. All
//! pointers of a route are one tree of keys ([`Pointers`]), and a document is a walk along that tree, so the
//! reader's state is where it stands there, and what each pointer has found ([`findings`]): the largest number so
//! far or the last one, the sum of a list, whether there is a member, or a short text that selects prices. What no
//! pointer leads into is skipped by counting brackets ([`skip`]).
//!
//! [`Sum`] makes a cost of the numbers: a [`Decimal`] each, times a [`Weight`], rounded up once.
//!
//! A [`PriceTable`] gives the terms other weights for each text in a request, such as the name of a model.
//!
//! [`BodyCost`] is what a policy does with them: it reserves by the request, and settles by the answer. If the
//! answer did not report its cost, the largest of all that is known is charged.
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
