//! Pseudo-random numbers for tests. The unit tests in `src` include this file by its path.

use std::fmt::Debug;

/// A pseudo-random sequence (`SplitMix64`), determined by its seed.
#[derive(Clone, Copy, Debug)]
pub struct Draws(pub u64);

impl Draws {
    /// Draws any 64-bit number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Draws a number from 0 up to, but not including, `bound`.
    pub fn below<N>(&mut self, bound: N) -> N
    where
        N: TryFrom<u64, Error: Debug> + TryInto<u64, Error: Debug>,
    {
        let drawn = self.next() % bound.try_into().expect("more than 0");
        N::try_from(drawn).expect("less than the bound")
    }

    /// Draws one of `all`.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
