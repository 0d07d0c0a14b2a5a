//! What the numbers of a term are multiplied by.

use std::fmt;

use thiserror::Error;

use super::decimal::Decimal;

/// A factor in billionths, so with up to nine decimals; it may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(i64);

/// Why a text is no weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadWeight {
    /// It is no number as JSON writes it.
    #[error("is not a decimal number")]
    NotANumber,
    /// It is beyond a billion, to either side.
    #[error("is more than 1000000000")]
    TooLarge,
    /// It has more than nine decimals.
    #[error("has more than 9 decimals")]
    TooManyDecimals,
}

impl Weight {
    /// 1, which changes nothing.
    pub const ONE: Self = Self(BILLION);

    /// Reads a weight as JSON writes numbers: `15`, `-0.25`, `2.5e-6`.
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

    /// Whether a number makes the sum smaller.
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

/// How many decimals a weight has at most.
pub(super) const DECIMALS: i32 = 9;

pub(super) const BILLION: i64 = 1_000_000_000;
