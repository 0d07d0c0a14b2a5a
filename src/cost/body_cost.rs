//! Costs that bodies report: a reserve before a request is admitted, then the cost that its response reported.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::body::MemberPlace;
use super::decimal::Decimal;
use super::findings::FoundText;
use super::json_pointer::PointerUse;
use super::prices::{Factors, PriceRow, Priced};
use super::source::{NumberIndex, Numbers};
use super::sum::{MissingTerm, Sum};
use super::weight::Weight;

/// How a policy charges requests by what bodies report; `S` says where a number is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyCost<S> {
    /// The cost of a request, which its response reports.
    pub cost: Sum<S>,
    /// Range to which every reported cost and reserve is clamped.
    pub bounds: RangeInclusive<u64>,
    /// The reserve: what is charged until the response has reported the cost.
    pub reserve: Amount<S>,
    /// Least reserve of a request that cannot be read, or does not report every term of the reserve.
    pub reserve_default: u64,
    /// Length of the longest request body that is read for the reserve, in bytes.
    pub max_reserve_body: u64,
    /// Least charge, together with the reserve, if the response does not report its cost.
    pub unknown: Option<Amount<S>>,
    /// Members by which a response says that it failed, although its status does not say so.
    pub refund_on: Vec<S>,
    /// Prices that a text in the request chooses, if the policy has any.
    pub prices: Option<Priced<S>>,
}

/// A number of units: fixed, or reported by bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount<S> {
    /// A number that the file gives.
    Units(u64),
    /// A sum of numbers that bodies report.
    Reported(Sum<S>),
}

/// How much of a request's body must be read before the request is decided; nothing if `bytes_max` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestNeed {
    /// Most bytes that are read.
    pub bytes_max: u64,
    /// Whether the JSON of the body counts, and not only its length.
    pub reads_json: bool,
}

/// What a request is charged in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Units that are charged.
    pub units: u64,
    /// Whether the cost that the bodies reported was above `max_cost`.
    pub is_capped: bool,
    /// Why the response did not report the cost; `None` if it did, or if it failed before it cost anything.
    pub missing_cost: Option<MissingCost>,
}

/// Why a response does not report what its request cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCost {
    /// The header field that should report the cost is missing, or is not a plain decimal.
    Header,
    /// The body is whole, but lacks a number.
    NoNumber,
    /// The body ended properly, but is not JSON, or ends within its JSON.
    Malformed,
    /// The body broke off, or ended only with its connection, which may be too early.
    Cut,
    /// The client left before the response ended.
    ClientGone,
    /// The body is compressed.
    Compressed,
    /// The body's type is neither JSON nor an event stream.
    ContentType,
    /// The body is only a part of the whole (206).
    Partial,
    /// The response has no body: it answers HEAD, or is 204, 205 or 304.
    NoBody,
    /// The connection was upgraded.
    Upgraded,
    /// The gateway answered in the upstream's place.
    Unanswered,
}

impl<S> Default for Amount<S> {
    fn default() -> Self {
        Self::Units(0)
    }
}

impl<S> BodyCost<S> {
    /// Converts where the numbers are reported, each by `place`.
    pub fn map<T>(&self, mut place: impl FnMut(&S, PointerUse) -> T) -> BodyCost<T> {
        BodyCost {
            cost: self.cost.map(&mut place),
            bounds: self.bounds.clone(),
            reserve: self.reserve.map(&mut place),
            reserve_default: self.reserve_default,
            max_reserve_body: self.max_reserve_body,
            unknown: self.unknown.as_ref().map(|unknown| unknown.map(&mut place)),
            refund_on: (self.refund_on.iter())
                .map(|source| place(source, PointerUse::Member))
                .collect(),
            prices: self.prices.as_ref().map(|prices| Priced {
                by: (prices.by.iter())
                    .map(|source| place(source, PointerUse::Text))
                    .collect(),
                table: Arc::clone(&prices.table),
            }),
        }
    }

    /// Whether bodies of requests must be read.
    pub fn reads_requests(&self) -> bool {
        self.prices.is_some() || self.reserve.reported().is_some()
    }

    /// Returns the smallest reserve that any request can have.
    pub fn reserve_min(&self) -> u64 {
        self.least(&self.reserve)
    }

    /// Returns the least that is charged if a response does not report its cost.
    pub fn unknown_min(&self) -> u64 {
        let unknown = self.unknown.as_ref().map(|unknown| self.least(unknown));
        self.reserve_min().max(unknown.unwrap_or(0))
    }

    fn least(&self, amount: &Amount<S>) -> u64 {
        match amount {
            Amount::Units(units) => *units,
            Amount::Reported(_) => *self.bounds.start(),
        }
    }
}

impl BodyCost<NumberIndex> {
    /// Returns how much of a request's body must be read to reserve its cost.
    pub fn request_need(&self) -> RequestNeed {
        if !self.reads_requests() {
            return RequestNeed::default();
        }
        let sums = [Some(&self.reserve), self.unknown.as_ref()];
        let sums = sums.into_iter().flatten().filter_map(Amount::reported);
        let mut sources = sums.flat_map(Sum::sources);
        RequestNeed {
            bytes_max: self.max_reserve_body,
            reads_json: self.prices.is_some()
                || sources.any(|source| matches!(source, NumberIndex::RequestJson(_))),
        }
    }

    /// Returns the prices that a request pays; `None` if it is to be refused, because its text has none.
    pub fn price_row(&self, numbers: &Numbers) -> Option<PriceRow> {
        let Some(prices) = &self.prices else {
            return Some(PriceRow::NoTable);
        };
        let is_read = self.is_short(numbers) && numbers.is_json_whole();
        prices
            .table
            .find(self.priced_text(numbers).filter(|_| is_read))
    }

    /// Returns the text that chooses the prices, if all places that report one report the same.
    fn priced_text<'n>(&self, numbers: &'n Numbers) -> Option<&'n str> {
        let mut found = None;
        for place in self.prices.iter().flat_map(|prices| &prices.by) {
            let NumberIndex::RequestJson(at) = place else {
                return None;
            };
            match numbers.request.text(*at) {
                FoundText::Nothing => {}
                FoundText::Told(text) if found.is_none_or(|known| known == &**text) => {
                    found = Some(&**text);
                }
                FoundText::Told(_) | FoundText::Unclear => return None,
            }
        }
        found
    }

    /// Whether the request's body is at most as long as may be read of it.
    fn is_short(&self, numbers: &Numbers) -> bool {
        let bytes = numbers.request_bytes.as_ref();
        bytes.is_none_or(|bytes| *bytes <= Decimal::from(self.max_reserve_body))
    }

    /// Returns what is charged until the response reports the cost.
    pub fn reserve(&self, numbers: &Numbers, row: PriceRow) -> u64 {
        let sum = match &self.reserve {
            Amount::Units(units) if self.prices.is_none() => return *units,
            Amount::Units(units) if self.is_short(numbers) && numbers.is_json_whole() => {
                return *units;
            }
            Amount::Units(units) => return (*units).max(self.reserve_default),
            Amount::Reported(sum) => sum,
        };
        let needs_json = self.prices.is_some()
            || (sum.sources()).any(|place| matches!(place, NumberIndex::RequestJson(_)));
        let is_told = if needs_json {
            numbers.is_json_whole()
        } else {
            numbers.is_length_known
        };
        let is_whole = self.is_short(numbers) && is_told;
        let missing = if is_whole {
            MissingTerm::Or
        } else {
            MissingTerm::Unreported
        };
        let factors = self.factors(row, |factors| &factors.reserve);
        let cost = sum.cost(|place| numbers.at(*place), missing, &self.bounds, factors);
        if is_whole && cost.is_whole {
            cost.units
        } else {
            cost.units.max(self.reserve_default)
        }
    }

    /// Returns a lower bound of the reserve, for a request whose body has not been read.
    pub fn reserve_at_least(&self, numbers: &Numbers) -> u64 {
        let sum = match &self.reserve {
            Amount::Units(units) => return *units,
            Amount::Reported(sum) => sum,
        };
        let factors = self.factors(PriceRow::Cheapest, |factors| &factors.reserve);
        let is_negative = match factors {
            Some(factors) => factors.iter().any(|factor| factor.is_negative()),
            None => sum.terms.iter().any(|term| term.times.is_negative()),
        };
        if is_negative {
            return *self.bounds.start();
        }
        let missing = MissingTerm::Unreported;
        let known = sum.cost(|place| numbers.at(*place), missing, &self.bounds, factors);
        known.units
    }

    /// Returns the weights of a sum's terms at these prices; `None` if the terms keep their own.
    fn factors(&self, row: PriceRow, of: fn(&Factors) -> &[Weight]) -> Option<&[Weight]> {
        Some(of(self.prices.as_ref()?.table.factors(row)?))
    }

    /// Returns what is charged in the end, if `reserved` was, at the prices of `row`, and the response ended with
    /// `end`.
    pub fn settle(
        &self,
        numbers: &Numbers,
        reserved: u64,
        row: PriceRow,
        end: Result<(), MissingCost>,
    ) -> Settled {
        let factors = self.factors(row, |factors| &factors.cost);
        let reported =
            |missing| (self.cost).cost(|place| numbers.at(*place), missing, &self.bounds, factors);
        let so_far = || reported(MissingTerm::Unreported);
        let settled = |units, is_capped, missing_cost| Settled {
            units,
            is_capped,
            missing_cost,
        };
        let whole = reported(MissingTerm::Or);
        let failed = self.failed(numbers);
        match (end, failed) {
            // If the gateway itself answers, the reserve stays charged.
            (Err(missing_cost @ MissingCost::Unanswered), _) => {
                settled(reserved, false, Some(missing_cost))
            }
            (_, Some(_)) if so_far().has_any => {
                let cost = so_far();
                settled(cost.units, cost.is_capped, None)
            }
            (_, Some(MemberPlace::First)) => Settled::default(),
            (_, Some(MemberPlace::Later)) => {
                let missing_cost = end.err().unwrap_or(MissingCost::NoNumber);
                let units = self.unknown(numbers, row).unwrap_or(reserved);
                settled(units, false, Some(missing_cost))
            }
            (Ok(()), None) if whole.is_whole => settled(whole.units, whole.is_capped, None),
            (end, None) => {
                let missing_cost = end.err().unwrap_or(MissingCost::NoNumber);
                let cost = so_far();
                let unknown = self.unknown(numbers, row).unwrap_or(0);
                let units = cost.units.max(reserved).max(unknown);
                settled(units, cost.is_capped, Some(missing_cost))
            }
        }
    }

    /// Returns where the response first said that it failed, if it did.
    fn failed(&self, numbers: &Numbers) -> Option<MemberPlace> {
        let places = self.refund_on.iter().filter_map(|place| match place {
            NumberIndex::ResponseJson(at) => numbers.response.member(*at),
            _ => None,
        });
        places.min_by_key(|place| *place != MemberPlace::First)
    }

    /// Returns the least charge of a response that did not report its cost, if the file gives one.
    fn unknown(&self, numbers: &Numbers, row: PriceRow) -> Option<u64> {
        let sum = match self.unknown.as_ref()? {
            Amount::Units(units) => return Some(*units),
            Amount::Reported(sum) => sum,
        };
        let factors = self.factors(row, |factors| &factors.unknown);
        let missing = MissingTerm::Or;
        let cost = sum.cost(|place| numbers.at(*place), missing, &self.bounds, factors);
        Some(cost.units)
    }
}

impl<S> Amount<S> {
    fn map<T>(&self, place: &mut impl FnMut(&S, PointerUse) -> T) -> Amount<T> {
        match self {
            Self::Units(units) => Amount::Units(*units),
            Self::Reported(sum) => Amount::Reported(sum.map(place)),
        }
    }

    /// Returns the sum that bodies report; `None` if the file gives a number.
    pub fn reported(&self) -> Option<&Sum<S>> {
        match self {
            Self::Units(_) => None,
            Self::Reported(sum) => Some(sum),
        }
    }
}

impl MissingCost {
    /// Every reason, in the order of their indices.
    pub const ALL: [Self; 11] = [
        Self::Header,
        Self::NoNumber,
        Self::Malformed,
        Self::Cut,
        Self::ClientGone,
        Self::Compressed,
        Self::ContentType,
        Self::Partial,
        Self::NoBody,
        Self::Upgraded,
        Self::Unanswered,
    ];

    /// Returns the reason's word in logs and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::NoNumber => "no_number",
            Self::Malformed => "malformed",
            Self::Cut => "cut",
            Self::ClientGone => "client_gone",
            Self::Compressed => "compressed",
            Self::ContentType => "content_type",
            Self::Partial => "partial",
            Self::NoBody => "no_body",
            Self::Upgraded => "upgraded",
            Self::Unanswered => "unanswered",
        }
    }
}

impl RequestNeed {
    /// Returns the need that covers both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes_max: self.bytes_max.max(other.bytes_max),
            reads_json: self.reads_json || other.reads_json,
        }
    }
}
