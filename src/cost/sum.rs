//! The cost that the numbers of a body add up to.

use std::ops::RangeInclusive;

use smallvec::SmallVec;

use super::decimal::Decimal;
use super::json_pointer::{PointerUse, Take};
use super::weight::{BILLION, DECIMALS, Weight};

/// A sum of terms; `S` says where a number is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum<S> {
    /// Terms of the sum, of which there are few.
    pub terms: Vec<Term<S>>,
}

/// A number times a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term<S> {
    /// Where the number is reported; if several sources report one, the largest counts.
    pub sources: Vec<S>,
    /// Which number counts if several documents, events or elements report one. If the last counts, the latest document
    /// that has any source counts, and the largest of its sources.
    pub take: Take,
    /// What the number is multiplied by.
    pub times: Weight,
    /// Name of the price that the number is also multiplied by; the table of prices has the products.
    pub price: Option<Box<str>>,
    /// The number that counts if no source reports one although the body ended properly.
    pub or: Option<Decimal>,
}

/// What counts for a term without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingTerm {
    /// The `or` of the term: the body has ended properly, so no number will be reported.
    Or,
    /// Nothing: the number could have been reported.
    Unreported,
}

/// The cost that the terms of a sum add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The sum of the terms that are known, rounded up, within the bounds.
    pub units: u64,
    /// Whether any term is known.
    pub has_any: bool,
    /// Whether every term is known.
    pub is_whole: bool,
    /// Whether the sum was above the bounds.
    pub is_capped: bool,
}

impl<S> Sum<S> {
    /// Adds the terms up, exactly, and rounds up once. `number` returns a number after the document that reported it if
    /// the last one counts, otherwise after 0. `factors`, if given, replace the terms' own weights.
    pub fn cost<'n>(
        &'n self,
        number: impl Fn(&S) -> Option<(u32, &'n Decimal)>,
        missing: MissingTerm,
        bounds: &RangeInclusive<u64>,
        factors: Option<&[Weight]>,
    ) -> Cost {
        let known = self.terms.iter().enumerate().filter_map(|(at, term)| {
            let reported = term.sources.iter().filter_map(&number).max();
            let reported = reported.map(|(_, number)| number);
            let or = term.or.as_ref().filter(|_| missing == MissingTerm::Or);
            let factor = factors.map_or(term.times, |factors| factors[at]);
            Some((factor, reported.or(or)?))
        });
        let known: SmallVec<[_; 8]> = known.collect();
        let sum = rounded_up(&known);
        Cost {
            units: u64::try_from(sum)
                .unwrap_or(u64::MAX)
                .clamp(*bounds.start(), *bounds.end()),
            has_any: !known.is_empty(),
            is_whole: known.len() == self.terms.len(),
            is_capped: sum > u128::from(*bounds.end()),
        }
    }
}

impl<S> Sum<S> {
    /// Yields every source of every term.
    pub fn sources(&self) -> impl Iterator<Item = &S> {
        self.terms.iter().flat_map(|term| &term.sources)
    }

    /// Converts where the numbers are reported, each by `place`.
    pub(super) fn map<T>(&self, place: &mut impl FnMut(&S, PointerUse) -> T) -> Sum<T> {
        let term = |term: &Term<S>| Term {
            sources: (term.sources.iter())
                .map(|source| place(source, PointerUse::Number(term.take)))
                .collect(),
            take: term.take,
            times: term.times,
            price: term.price.clone(),
            or: term.or.clone(),
        };
        Sum {
            terms: self.terms.iter().map(term).collect(),
        }
    }
}

impl<S> Default for Term<S> {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            take: Take::default(),
            times: Weight::ONE,
            price: None,
            or: None,
        }
    }
}

/// Returns the sum of products, rounded up: 0 if it is negative, and `u128::MAX` if it is more than that.
fn rounded_up(products: &[(Weight, &Decimal)]) -> u128 {
    match billionths(products) {
        Some(sum) => sum
            .max(0)
            .unsigned_abs()
            .div_ceil(BILLION.unsigned_abs().into()),
        None => rounded_up_by_columns(products),
    }
}

/// Returns the sum in billionths, if all numbers are whole and the sum fits.
fn billionths(products: &[(Weight, &Decimal)]) -> Option<i128> {
    products.iter().try_fold(0_i128, |sum, (times, number)| {
        let product = i128::from(times.billionths()) * i128::from(number.whole()?);
        sum.checked_add(product)
    })
}

/// Returns what [`rounded_up`] does for any numbers, adding them as on paper: column by column from the lowest, with a
/// carry. As weights are in billionths, nine more columns of the sum are decimals.
fn rounded_up_by_columns(products: &[(Weight, &Decimal)]) -> u128 {
    let lowest = products
        .iter()
        .map(|(_, number)| number.lowest_column())
        .min();
    let (mut carry, mut has_decimals) = (0_i128, false);
    let (mut units, mut power) = (0_u128, 1_u128);
    for column in lowest.unwrap_or(0).min(0)..COLUMN_END {
        let digit = |number: &Decimal| i128::from(number.digit(column));
        let products = products
            .iter()
            .map(|(times, number)| i128::from(times.billionths()) * digit(number));
        let column_sum = carry + products.sum::<i128>();
        let digit = column_sum.rem_euclid(10).unsigned_abs();
        carry = column_sum.div_euclid(10);
        if column < DECIMALS {
            has_decimals |= digit != 0;
        } else {
            units = units.saturating_add(power.saturating_mul(digit));
            power = power.saturating_mul(10);
        }
    }
    // After the last column only the sign is left: 0 or -1.
    if carry < 0 {
        0
    } else {
        units.saturating_add(has_decimals.into())
    }
}

/// End of the columns: 41 of the largest number, and 23 in which the carry runs out.
const COLUMN_END: i32 = 64;
