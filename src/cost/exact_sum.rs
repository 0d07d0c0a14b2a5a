//! Adds decimal numbers exactly, however many there are.
//!
//! Whole numbers are added as a `u64`. The digits of others are added in limbs of 18 columns each, enough for the
//! largest and the smallest number that is read, so that adding a number takes as many steps as it has digits.

use std::fmt::Write as _;

use super::decimal::{COLUMN_END, COLUMN_MIN, Decimal};

/// A sum, which begins at 0.
#[derive(Debug, Default)]
pub(super) struct ExactSum {
    /// Sum of the whole numbers, as far as they fit.
    whole: u64,
    /// Sum of all other numbers, lowest limb first.
    limbs: Option<Box<[u64; LIMBS]>>,
}

impl ExactSum {
    /// Adds a number.
    pub(super) fn add(&mut self, number: &Decimal) {
        match number.whole() {
            Some(whole) => self.add_whole(whole),
            None => self.add_digits(number),
        }
    }

    /// Adds another sum.
    pub(super) fn add_sum(&mut self, other: Self) {
        self.add_whole(other.whole);
        match (&mut self.limbs, other.limbs) {
            (_, None) => {}
            (limbs @ None, others) => *limbs = others,
            (Some(limbs), Some(others)) => {
                let mut carry = 0;
                for (limb, other) in limbs.iter_mut().zip(*others) {
                    *limb += other + carry;
                    carry = u64::from(*limb >= LIMB_END);
                    *limb -= carry * LIMB_END;
                }
            }
        }
    }

    /// Returns the sum, limited to the range of [`Decimal`].
    pub(super) fn total(mut self) -> Decimal {
        if self.limbs.is_none() {
            return Decimal::from(self.whole);
        }
        self.add_digits(&Decimal::from(self.whole));
        let limbs = self.limbs.as_deref().map_or(&[][..], |limbs| limbs);
        let lowest = limbs.iter().take_while(|limb| **limb == 0).count();
        let limbs = limbs[lowest..].iter().rev();
        let (mut digits, mut columns) = (String::new(), LIMBS * LIMB_DIGITS);
        for limb in limbs {
            match limb {
                0 if digits.is_empty() => columns -= LIMB_DIGITS,
                0 => digits.push_str(ZEROS),
                limb => _ = write!(digits, "{limb:018}"),
            }
        }
        let point = COLUMN_MIN + i32::try_from(columns).expect("few digits");
        Decimal::new(point, digits.as_bytes())
    }

    fn add_whole(&mut self, whole: u64) {
        match self.whole.checked_add(whole) {
            Some(sum) => self.whole = sum,
            None => self.add_digits(&Decimal::from(whole)),
        }
    }

    fn add_digits(&mut self, number: &Decimal) {
        let limbs = self.limbs.get_or_insert_with(|| Box::new([0; LIMBS]));
        for column in number.lowest_column()..number.column_end() {
            let at = usize::try_from(column - COLUMN_MIN).expect("no number has a lower digit");
            let power = 10_u64.pow(u32::try_from(at % LIMB_DIGITS).expect("few digits"));
            let mut added = u64::from(number.digit(column)) * power;
            for limb in &mut limbs[at / LIMB_DIGITS..] {
                *limb += added;
                if *limb < LIMB_END {
                    break;
                }
                *limb -= LIMB_END;
                added = 1;
            }
        }
    }
}

/// Columns of a limb.
const LIMB_DIGITS: usize = 18;

const LIMB_END: u64 = 10_u64.pow(18);

/// The digits of a limb that is 0, as most are.
const ZEROS: &str = "000000000000000000";

/// Limbs for every column, and one more for the carry beyond them.
const LIMBS: usize = ((COLUMN_END - COLUMN_MIN) as usize).div_ceil(LIMB_DIGITS) + 1;
