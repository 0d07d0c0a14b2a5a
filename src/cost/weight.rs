//! Weights: the factors that the numbers of a cost's terms are multiplied by.

use std::fmt;

use thiserror::Error;

use super::decimal::Decimal;

/// A factor with up to nine decimals, stored in billionths; it may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(i64);

/// Why a text is not a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadWeight {
    /// The text is not a number in JSON's syntax.
    #[error("is not a decimal number")]
    NotANumber,
    /// The weight is above a billion, or below minus a billion.
    #[error("is more than 1000000000")]
    TooLarge,
    /// The weight has more than nine decimals.
    #[error("has more than 9 decimals")]
    TooManyDecimals,
}

impl Weight {
    /// The weight 1, which leaves a number unchanged.
    pub const ONE: Self = Self(BILLION);

    /// Reads a weight, written as JSON writes numbers: `15`, `-0.25`, `2.5e-6`.
    pub fn parse(text: &str) -> Result<Self, BadWeight> {
        let text = text.as_bytes();
        let (is_negative, size) = Decimal::parse(text).ok_or(BadWeight::NotANumber)?;
        if size > Decimal::from(BILLION.unsigned_abs()) {
            return Err(BadWeight::TooLarge);
        }
        if (size.lowest_column()..-DECIMALS).any(|column| size.digit(column) != 0) {
            return Err(BadWeight::TooManyDecimals);
        }
        let columns = (-DECIMALS..=DECIMALS).rev();
        let billionths = columns.fold(0, |sum, column| sum * 10 + i64::from(size.digit(column)));
        Ok(Self(if is_negative { -billionths } else { billionths }))
    }

    /// Multiplies two weights; the product is exact.
    pub fn times(self, other: Self) -> Result<Self, BadWeight> {
        let (product, billion) = (
            i128::from(self.0) * i128::from(other.0),
            i128::from(BILLION),
        );
        if product.abs() > billion * billion * billion {
            return Err(BadWeight::TooLarge);
        }
        if product % billion != 0 {
            return Err(BadWeight::TooManyDecimals);
        }
        let billionths = i64::try_from(product / billion).expect("a billion at most");
        Ok(Self(billionths))
    }

    /// Whether the weight is negative, so that numbers make a sum smaller.
    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    pub(super) fn billionths(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let size = self.0.unsigned_abs();
        let (whole, decimals) = (size / BILLION.unsigned_abs(), size % BILLION.unsigned_abs());
        let text = format!("{sign}{whole}.{decimals:09}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Most decimals of a weight.
pub(super) const DECIMALS: i32 = 9;

pub(super) const BILLION: i64 = 1_000_000_000;
