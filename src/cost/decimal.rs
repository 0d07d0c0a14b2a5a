//! Decimal numbers as JSON writes them, exactly.

use std::cmp::Ordering;
use std::fmt;

use itoa::Buffer;
use smallvec::SmallVec;

/// Longest number that is read.
pub const NUMBER_BYTES_MAX: usize = 256;

/// A decimal number that is not negative, with all its digits. What is above 1e40 is held to it, which
/// is more than any cost, and what is above 0 but below 1e-300 counts as 1e-300.
#[derive(Clone)]
pub struct Decimal(Digits);

/// A whole number, as most are; or digits behind a point, two in a byte, the first of them not 0, and how many
/// digits the point must move to the right. Zero has none of them, and the lowest point. So the order of point
/// and bytes is that of numbers.
///
/// What tokens and prices need fits into 16 bytes: a route may have 32 numbers for each open stream.
#[derive(Clone)]
enum Digits {
    Whole(u64),
    Short { point: i16, bytes: [u8; SHORT] },
    Long(Box<(i16, Vec<u8>)>),
}

impl Decimal {
    /// Reads a number of JSON (RFC 8259, section 6), at most [`NUMBER_BYTES_MAX`] bytes: whether it is
    /// negative (-0 is not), and its size.
    pub fn parse(text: &[u8]) -> Option<(bool, Self)> {
        if text.len() > NUMBER_BYTES_MAX {
            return None;
        }
        if let Some(number) = whole(text) {
            return Some((false, Self::from(number)));
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

    /// The number, if it is kept as a whole one.
    pub(super) fn whole(&self) -> Option<u64> {
        match self.0 {
            Digits::Whole(number) => Some(number),
            Digits::Short { .. } | Digits::Long(_) => None,
        }
    }

    /// The digit at `10^column`.
    pub(super) fn digit(&self, column: i32) -> u8 {
        self.with_parts(|point, bytes| {
            let Ok(at) = usize::try_from(i32::from(point) - 1 - column) else {
                return 0;
            };
            let byte = bytes.get(at / 2).copied().unwrap_or(0);
            if at.is_multiple_of(2) {
                byte >> 4
            } else {
                byte & 0xF
            }
        })
    }

    /// A column below which every digit is 0.
    pub(super) fn lowest_column(&self) -> i32 {
        self.with_parts(|point, bytes| {
            let used = bytes.iter().rposition(|byte| *byte != 0);
            used.map_or(0, |last| i32::from(point) - 2 * small(last + 1))
        })
    }

    fn is_zero(&self) -> bool {
        self.with_parts(|point, _| i32::from(point) == ZERO_POINT)
    }

    /// Makes the number 0.DIGITS times `10^point`.
    fn new(mut point: i32, digits: &[u8]) -> Self {
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
        } else if point >= POINT_HELD {
            (point, digits) = (POINT_HELD, b"1");
        }
        if digits.len() <= 2 * SHORT {
            return Self::short(point, digits);
        }
        let bytes = digits.chunks(2).map(pair).collect();
        Self(Digits::Long(Box::new((small_point(point), bytes))))
    }

    /// Makes a number of few digits.
    fn short(point: i32, digits: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        for (byte, digits) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair(digits);
        }
        let point = small_point(point);
        Self(Digits::Short { point, bytes })
    }

    /// Calls `call` with the point and the digits.
    fn with_parts<R>(&self, call: impl FnOnce(i16, &[u8]) -> R) -> R {
        match &self.0 {
            Digits::Whole(number) => {
                let mut buffer = Buffer::new();
                let digits = buffer.format(*number);
                Self::new(small(digits.len()), digits.as_bytes()).with_parts(call)
            }
            Digits::Short { point, bytes } => call(*point, bytes),
            Digits::Long(long) => call(long.0, &long.1),
        }
    }
}

impl From<u64> for Decimal {
    fn from(number: u64) -> Self {
        Self(Digits::Whole(number))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.whole(), other.whole()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => self.with_parts(|point, bytes| {
                other.with_parts(|other, others| (point, bytes).cmp(&(other, others)))
            }),
        }
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
        let highest = self.with_parts(|point, _| i32::from(point).max(1) - 1);
        for column in (self.lowest_column().min(0)..=highest).rev() {
            if column == -1 {
                f.write_str(".")?;
            }
            // The lowest byte may have a digit too many.
            if column != self.lowest_column() || column >= 0 || self.digit(column) != 0 {
                write!(f, "{}", self.digit(column))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_parts(|point, bytes| {
            f.write_str("0.")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            write!(f, "e{point}")
        })
    }
}

/// Reads digits alone that are few enough for a word, without a leading zero.
fn whole(text: &[u8]) -> Option<u64> {
    let is_plain = matches!(text, [b'1'..=b'9', ..] | b"0") && text.len() <= WHOLE_DIGITS_MAX;
    let add = |sum: u64, byte: &u8| {
        let digit = u64::from(byte.wrapping_sub(b'0'));
        (digit < 10).then(|| sum * 10 + digit)
    };
    is_plain.then(|| text.iter().try_fold(0, add)).flatten()
}

/// Two digits in a byte; the second is 0 if there is none.
fn pair(digits: &[u8]) -> u8 {
    let low = digits.get(1).map_or(0, |digit| digit - b'0');
    ((digits[0] - b'0') << 4) | low
}

fn small_point(point: i32) -> i16 {
    i16::try_from(point).expect("within the bounds")
}

/// A count of digits.
fn small(count: usize) -> i32 {
    i32::try_from(count).expect("a number has few digits")
}

/// The digits that a text begins with, and what is behind them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// An exponent, held to what makes no more difference.
fn exponent(text: &[u8]) -> Option<i32> {
    let (sign, text) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    let (digits, rest) = digits(text);
    let add = |sum: i32, digit: &u8| (sum * 10 + i32::from(digit - b'0')).min(EXPONENT_HELD);
    let size = digits.iter().fold(0, add);
    (!digits.is_empty() && rest.is_empty()).then_some(sign * size)
}

/// Most digits of which every number fits into 64 bits.
const WHOLE_DIGITS_MAX: usize = 19;

/// Bytes of a short number's digits: 26 digits.
const SHORT: usize = 13;

/// The point of 1e-300, the smallest number but 0.
const POINT_MIN: i32 = -299;

/// The point of 1e40, the largest number.
const POINT_HELD: i32 = 41;

/// The point of 0, below all others.
const ZERO_POINT: i32 = -1000;

/// More than a text's digits can make up for.
const EXPONENT_HELD: i32 = 100_000;
