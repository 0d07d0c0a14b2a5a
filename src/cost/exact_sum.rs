//! Adds decimal numbers up exactly, however many there are.
//!
//! Whole numbers are added as one. For others there is a limb for each 18 columns of the largest and the smallest
//! number that is read, so that to add one takes as many steps as it has digits.

use std::fmt::Write as _;

use super::decimal::{COLUMN_END, COLUMN_MIN, Decimal};

/// A sum, which begins with nothing.
#[derive(Debug, Default)]
pub(super) struct ExactSum {
    /// The whole numbers that have been added while that was enough.
    whole: u64,
    /// The others; the highest limb comes last.
    limbs: Option<Box<[u64; LIMBS]>>,
}

impl ExactSum {
    /// Adds a number.
    pub(super) fn add(&mut self, number: &Decimal) {
        let whole = number.whole();
        match whole.and_then(|whole| self.whole.checked_add(whole)) {
            Some(sum) => self.whole = sum,
            None => self.add_digits(number),
        }
    }

    /// Returns the sum, held to what any number is held to.
    pub(super) fn total(mut self) -> Decimal {
        if self.limbs.is_none() {
            return Decimal::from(self.whole);
        }
        self.add_digits(&Decimal::from(self.whole));
        let limbs = self.limbs.as_deref().into_iter().flatten().rev();
        let mut digits = String::with_capacity(LIMBS * LIMB_DIGITS);
        for limb in limbs {
            let _ = write!(digits, "{limb:018}");
        }
        let point = COLUMN_MIN + i32::try_from(digits.len()).expect("few digits");
        Decimal::new(point, digits.as_bytes())
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

/// Limbs for every column, and one more for what is carried beyond.
const LIMBS: usize = ((COLUMN_END - COLUMN_MIN) as usize).div_ceil(LIMB_DIGITS) + 1;
