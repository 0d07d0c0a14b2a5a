//! The cost of requests whose bodies report it: a reserve before it is admitted, then what its answer reported.

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

/// How a policy counts requests whose cost an answer's body tells; `S` says where a number is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyCost<S> {
    /// What an answer tells.
    pub cost: Sum<S>,
    /// What every cost and reserve that a body reports is clamped to.
    pub bounds: RangeInclusive<u64>,
    /// What is charged until then.
    pub reserve: Amount<S>,
    /// What is charged at least if the request did not tell all that makes the reserve.
    pub reserve_default: u64,
    /// Longest request that can tell all of it, in bytes.
    pub max_reserve_body: u64,
    /// What an answer costs at least that did not tell; none: the reserve.
    pub unknown: Option<Amount<S>>,
    /// Members of an answer that failed, although its status says that it did not.
    pub refund_on: Vec<S>,
    /// What the terms are multiplied by, if a text in the request says it.
    pub prices: Option<Priced<S>>,
}

/// A number of units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount<S> {
    /// The file says it.
    Units(u64),
    /// Bodies do.
    Reported(Sum<S>),
}

/// What must be read of a request before it is decided; of length 0, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestNeed {
    /// Up to how many bytes.
    pub bytes_max: u64,
    /// Whether numbers in it count, and not only its length.
    pub reads_json: bool,
}

/// What a request is charged in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// Units.
    pub units: u64,
    /// Whether the answer reported more than `max_cost`.
    pub is_capped: bool,
    /// Why the response did not report it; none: it did.
    pub missing_cost: Option<MissingCost>,
}

/// Why a response does not report what its request cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCost {
    /// The header field that should report it is missing, or no plain decimal.
    Header,
    /// The body is whole and lacks a number.
    NoNumber,
    /// It is whole and no JSON, or breaks off within it.
    Malformed,
    /// It broke off, or ended with its connection, which may be too early.
    Cut,
    /// The client left before it ended.
    ClientGone,
    /// It is compressed.
    Compressed,
    /// Its type is neither JSON nor an event stream.
    ContentType,
    /// It is a part of one (206).
    Partial,
    /// It has no body: the answer to HEAD, 204, 205, 304.
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
    /// Returns the same whose numbers are reported elsewhere.
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

    /// Whether requests must be read.
    pub fn reads_requests(&self) -> bool {
        self.prices.is_some() || self.reserve.reported().is_some()
    }

    /// Returns the smallest reserve that any request can have.
    pub fn reserve_min(&self) -> u64 {
        self.least(&self.reserve)
    }

    /// Returns the least that an answer costs that did not tell.
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
    /// Says what must be read of a request to reserve by it.
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

    /// Says which prices a request pays; none if it is to be refused, because it does not tell.
    pub fn price_row(&self, numbers: &Numbers) -> Option<PriceRow> {
        let Some(prices) = &self.prices else {
            return Some(PriceRow::NoTable);
        };
        let is_read = self.is_short(numbers) && numbers.is_json_whole();
        prices
            .table
            .find(self.priced_text(numbers).filter(|_| is_read))
    }

    /// Returns the text that chooses the prices, if every place that tells one tells the same.
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

    /// Whether the request's body is not longer than what may be read of it.
    fn is_short(&self, numbers: &Numbers) -> bool {
        let bytes = numbers.request_bytes.as_ref();
        bytes.is_none_or(|bytes| *bytes <= Decimal::from(self.max_reserve_body))
    }

    /// Says what is charged before the answer tells.
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

    /// Says what is charged at least, of a request whose body has not been read.
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

    /// Returns what the terms of a sum are multiplied by, if it is not their own.
    fn factors(&self, row: PriceRow, of: fn(&Factors) -> &[Weight]) -> Option<&[Weight]> {
        Some(of(self.prices.as_ref()?.table.factors(row)?))
    }

    /// Says what is charged in the end, if `reserved` was, at these prices, and the answer ended like this.
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
            // The gateway's own answers keep the charge.
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

    /// Says where an answer first told that it failed, if it did.
    fn failed(&self, numbers: &Numbers) -> Option<MemberPlace> {
        let places = self.refund_on.iter().filter_map(|place| match place {
            NumberIndex::ResponseJson(at) => numbers.response.member(*at),
            _ => None,
        });
        places.min_by_key(|place| *place != MemberPlace::First)
    }

    /// Says what an answer costs at least that did not tell, if the file says so.
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

    /// Returns the sum that bodies tell; none if the file says a number.
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

    /// Returns the reason's word in log and metrics.
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
    /// What serves both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes_max: self.bytes_max.max(other.bytes_max),
            reads_json: self.reads_json || other.reads_json,
        }
    }
}
