//! Decimal numbers as JSON writes them, kept exactly.

use std::cmp::Ordering;
use std::fmt;

use itoa::Buffer;
use smallvec::SmallVec;

/// Longest number that is read, in bytes.
pub const NUMBER_BYTES_MAX: usize = 256;

/// A decimal number that is not negative, with all its digits. A number above 1e40, which is more than any cost, counts
/// as 1e40, and one between 0 and 1e-300 counts as 1e-300.
#[derive(Clone)]
pub struct Decimal(Digits);

/// A number 0.DIGITS times `10^point`: `leading` has its first 19 digits, the first of which is not 0, and any others
/// follow. Zero has the lowest point. So comparing points and then digits compares the numbers.
///
/// Numbers of tokens and prices fit into 16 bytes, because a route may have 32 numbers for each open stream.
#[derive(Clone)]
enum Digits {
    Short { point: i16, leading: u64 },
    Long(Box<(i16, u64, Vec<u8>)>),
}

impl Decimal {
    /// Reads a number of JSON (RFC 8259, section 6) of at most [`NUMBER_BYTES_MAX`] bytes. Returns whether it is
    /// negative (-0 is not), and its size.
    #[inline]
    pub fn parse(text: &[u8]) -> Option<(bool, Self)> {
        match Self::plain(text) {
            Some((number, [])) => Some((false, number)),
            _ => Self::parse_any(text),
        }
    }

    /// Reads the digits that a text begins with, and returns the number and the rest of the text; `None` if there are
    /// more than [`LEADING`] digits, none, or a leading 0.
    #[inline]
    pub(super) fn plain(text: &[u8]) -> Option<(Self, &[u8])> {
        let (mut number, mut length) = (0, 0);
        while let Some(digit @ b'0'..=b'9') = text.get(length) {
            if length == LEADING {
                return None;
            }
            number = number * 10 + u64::from(digit - b'0');
            length += 1;
        }
        let is_plain = matches!(text, [b'1'..=b'9', ..]);
        let number = Digits::Short {
            point: small_point(small(length)),
            leading: number * POWERS[LEADING - length],
        };
        is_plain.then(|| (Self(number), &text[length..]))
    }

    fn parse_any(text: &[u8]) -> Option<(bool, Self)> {
        if text.len() > NUMBER_BYTES_MAX {
            return None;
        }
        let unsigned = text.strip_prefix(b"-");
        let (whole, rest) = digits(unsigned.unwrap_or(text));
        let (fraction, rest) = match rest.strip_prefix(b".") {
            Some(rest) => digits(rest),
            None => (&b"0"[..], rest),
        };
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => exponent(rest)?,
            _ => return None,
        };
        let has_leading_zero = whole.len() > 1 && whole[0] == b'0';
        if whole.is_empty() || has_leading_zero || fraction.is_empty() {
            return None;
        }
        let mut digits = SmallVec::<[u8; 32]>::from_slice(whole);
        digits.extend_from_slice(fraction);
        let number = Self::new(small(whole.len()) + exponent, &digits);
        Some((unsigned.is_some() && !number.is_zero(), number))
    }

    /// Returns the number, if it is whole and has at most 19 digits.
    pub(super) fn whole(&self) -> Option<u64> {
        let (point, leading, rest) = self.parts();
        if self.is_zero() {
            return Some(0);
        }
        let decimals = LEADING.checked_sub(usize::try_from(point).ok()?)?;
        let unit = POWERS[decimals];
        (rest.is_empty() && leading.is_multiple_of(unit)).then(|| leading / unit)
    }

    /// Returns the digit at `10^column`.
    pub(super) fn digit(&self, column: i32) -> u8 {
        let (point, leading, rest) = self.parts();
        let Ok(at) = usize::try_from(i32::from(point) - 1 - column) else {
            return 0;
        };
        match LEADING.checked_sub(at + 1) {
            Some(behind) => u8::try_from(leading / POWERS[behind] % 10).expect("a digit"),
            None => rest.get(at - LEADING).map_or(0, |digit| digit - b'0'),
        }
    }

    /// Returns the column of the lowest digit that is not 0.
    pub(super) fn lowest_column(&self) -> i32 {
        let (point, leading, rest) = self.parts();
        let zeros = POWERS
            .iter()
            .skip(1)
            .take_while(|power| leading.is_multiple_of(**power));
        match leading {
            0 => 0,
            _ if rest.is_empty() => i32::from(point) - small(LEADING - zeros.count()),
            _ => i32::from(point) - small(LEADING + rest.len()),
        }
    }

    /// Returns the column above the highest digit.
    pub(super) fn column_end(&self) -> i32 {
        if self.is_zero() {
            0
        } else {
            self.parts().0.into()
        }
    }

    fn is_zero(&self) -> bool {
        i32::from(self.parts().0) == ZERO_POINT
    }

    /// Makes the number 0.DIGITS times `10^point`.
    pub(super) fn new(mut point: i32, digits: &[u8]) -> Self {
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        point -= small(zeros);
        let mut digits = &digits[zeros..];
        while let [rest @ .., b'0'] = digits {
            digits = rest;
        }
        if digits.is_empty() {
            point = ZERO_POINT;
        } else if point < POINT_MIN {
            (point, digits) = (POINT_MIN, b"1");
        } else if point >= POINT_MAX {
            (point, digits) = (POINT_MAX, b"1");
        }
        let point = small_point(point);
        let (first, rest) = digits.split_at(digits.len().min(LEADING));
        let number = (first.iter()).fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        let leading = number * POWERS[LEADING - first.len()];
        Self(match rest {
            [] => Digits::Short { point, leading },
            rest => Digits::Long(Box::new((point, leading, rest.to_vec()))),
        })
    }

    fn parts(&self) -> (i16, u64, &[u8]) {
        match &self.0 {
            Digits::Short { point, leading } => (*point, *leading, &[]),
            Digits::Long(long) => (long.0, long.1, &long.2),
        }
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Self {
        let mut buffer = Buffer::new();
        let digits = buffer.format(number);
        Self::new(small(digits.len()), digits.as_bytes())
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let (point, leading, rest) = self.parts();
        let (other_point, other_leading, other_rest) = other.parts();
        let first = (point, leading).cmp(&(other_point, other_leading));
        first.then_with(|| match (rest, other_rest) {
            // Comparing two empty slices is a call, and a slow one.
            ([], []) => Ordering::Equal,
            _ => rest.cmp(other_rest),
        })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = i32::from(self.parts().0).max(1) - 1;
        for column in (self.lowest_column().min(0)..=highest).rev() {
            if column == -1 {
                f.write_str(".")?;
            }
            write!(f, "{}", self.digit(column))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (point, leading, rest) = self.parts();
        let rest = String::from_utf8_lossy(rest);
        write!(f, "0.{leading}{rest}e{point}")
    }
}

fn small_point(point: i32) -> i16 {
    i16::try_from(point).expect("within the bounds")
}

/// Converts a count of digits.
fn small(count: usize) -> i32 {
    i32::try_from(count).expect("a number has few digits")
}

/// Splits off the digits that a text begins with.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// Reads an exponent, limited to a size beyond which it makes no difference.
fn exponent(text: &[u8]) -> Option<i32> {
    let (sign, text) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    let (digits, rest) = digits(text);
    let add = |sum: i32, digit: &u8| (sum * 10 + i32::from(digit - b'0')).min(EXPONENT_MAX);
    let size = digits.iter().fold(0, add);
    (!digits.is_empty() && rest.is_empty()).then_some(sign * size)
}

/// Most digits such that every number of this many digits fits into 64 bits.
const LEADING: usize = 19;

/// Powers of 10, from 1 up.
const POWERS: [u64; LEADING + 1] = {
    let mut powers = [1; LEADING + 1];
    let mut at = 1;
    while at <= LEADING {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// The point of 1e-300, the smallest number except 0.
const POINT_MIN: i32 = -299;

/// The point of 1e40, the largest number.
const POINT_MAX: i32 = 41;

/// The column above the highest one that a number can have.
pub(super) const COLUMN_END: i32 = POINT_MAX;

/// The lowest column that a number can have: the smallest point is followed by at most [`NUMBER_BYTES_MAX`] digits.
pub(super) const COLUMN_MIN: i32 = POINT_MIN - 256;

/// The point of 0, below that of every other number.
const ZERO_POINT: i32 = -1000;

/// An exponent beyond what the digits of a text can make up for.
const EXPONENT_MAX: i32 = 100_000;
