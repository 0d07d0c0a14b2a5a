//! Parts of a quota whose use is reported.

/// A part of a quota, in percent: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Threshold(u8);

impl Threshold {
    /// The whole quota.
    pub const MAX: u8 = 100;

    /// Makes a threshold; none unless it is 1 to 100 percent.
    pub fn new(percent: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&percent).then_some(Self(percent))
    }

    /// Returns the threshold in percent.
    pub fn percent(self) -> u8 {
        self.0
    }

    /// Returns how many of `capacity` units the threshold is, rounded up.
    pub fn units_of(self, capacity: u64) -> u64 {
        let hundredths = u128::from(capacity) * u128::from(self.0);
        u64::try_from(hundredths.div_ceil(100)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_a_part_of_a_quota_rounded_up() {
        let units = |percent, capacity| {
            let threshold: Option<Threshold> = Threshold::new(percent);
            threshold.map(|threshold| threshold.units_of(capacity))
        };
        for (percent, capacity, expected) in [
            (80, 100, Some(80)),
            (80, 7, Some(6)),
            (1, 10, Some(1)),
            (100, 3, Some(3)),
            (100, u64::MAX, Some(u64::MAX)),
            (0, 100, None),
            (101, 100, None),
        ] {
            assert_eq!(
                units(percent, capacity),
                expected,
                "{percent}% of {capacity}"
            );
        }
    }
}
