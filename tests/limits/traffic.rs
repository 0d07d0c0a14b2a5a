//! Random quotas, and random traffic that is scaled to them.

#![allow(dead_code, reason = "each test file uses its share")]

use proptest::prelude::*;
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::CheckMode;
use tollgate::limit::quota::COUNT_MAX;
use tollgate::limit::{Algorithm, Calendar, CalendarUnit, Quota};

use crate::ledger::{Quotas, calendar};

/// When traffic starts: at an edge of every window of up to a day.
pub const START: Timestamp = Timestamp(1_699_920_000_000_000);

/// Time between two requests: thousandths of the window, and a few microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    permille: u64,
    extra_us: u64,
}

/// Units of a request: a number, or thousandths of the quota.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Units(u64),
    Permille(u64),
}

/// Requests of one client, each after a gap.
#[derive(Clone, Debug)]
pub struct Traffic(Vec<(Gap, Cost)>);

impl Gap {
    pub fn of(self, quota: &Quota) -> Micros {
        Micros(quota.window.0 * self.permille / 1000 + self.extra_us)
    }
}

impl Cost {
    /// Returns the units. Thousandths are cut to what counters hold, because the file bounds costs far below that.
    pub fn of(self, quota: &Quota) -> u64 {
        match self {
            Self::Units(units) => units,
            Self::Permille(permille) => (quota.limit * permille / 1000).min(COUNT_MAX),
        }
    }
}

impl Traffic {
    /// Returns the time and the cost of every request.
    pub fn steps(&self, quota: &Quota) -> Vec<(Timestamp, u64)> {
        let mut at = START;
        let step = |(gap, cost): &(Gap, Cost)| {
            at = at + gap.of(quota);
            (at, cost.of(quota))
        };
        self.0.iter().map(step).collect()
    }
}

impl Arbitrary for Gap {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        let permille = prop_oneof![
            4 => Just(0_u64),
            4 => 0..60_u64,
            2 => 0..300_u64,
            1 => prop_oneof![Just(100_u64), Just(500), Just(900), Just(1000), Just(1100)],
            1 => 0..2500_u64,
        ];
        (permille, 0..3_u64)
            .prop_map(|(permille, extra_us)| Self { permille, extra_us })
            .boxed()
    }
}

impl Arbitrary for Cost {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        prop_oneof![
            4 => Just(Self::Units(1)),
            1 => Just(Self::Units(0)),
            2 => (1..30_u64).prop_map(Self::Units),
            3 => (0..1100_u64).prop_map(Self::Permille),
        ]
        .boxed()
    }
}

/// Makes 1 to 59 requests.
pub fn traffic() -> impl Strategy<Value = Traffic> {
    proptest::collection::vec(any::<(Gap, Cost)>(), 1..60).prop_map(Traffic)
}

/// Makes quotas of 1 to 2,000,000 units, in windows from a millisecond to 30 days.
pub fn quota_of(algorithm: impl Strategy<Value = Algorithm>) -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![4 => 1..30_u64, 1 => 1..2_000_000_u64];
    let window_us = proptest::sample::select(vec![1_000, 60_000, 1_000_000, 2_592_000_000_000]);
    (limit, window_us, algorithm).prop_map(|(limit, window_us, algorithm)| {
        Quota::of(algorithm, limit, window_of(algorithm, window_us))
    })
}

/// Returns the window of a quota: the longest of a calendar, or one that its buckets divide, as the file demands.
pub fn window_of(algorithm: Algorithm, window_us: u64) -> Micros {
    match algorithm {
        Algorithm::Calendar(calendar) => calendar.shape().unit.longest(),
        Algorithm::SlidingWindow { buckets, .. } => {
            Micros(window_us.next_multiple_of(buckets.into()))
        }
        _ => Micros(window_us),
    }
}

pub fn calendars() -> impl Strategy<Value = &'static Calendar> {
    let unit = prop_oneof![
        Just(CalendarUnit::Day),
        Just(CalendarUnit::Week),
        Just(CalendarUnit::Month),
    ];
    let zones = vec!["UTC", "America/Santiago", "Australia/Lord_Howe"];
    let zone = proptest::sample::select(zones);
    (unit, zone, 1..=31_u8, 0..1440_u16).prop_map(|(unit, zone, day, minute)| {
        let day = if unit == CalendarUnit::Month {
            day
        } else {
            1 + day % 7
        };
        calendar(unit, zone, day, minute)
    })
}

/// Returns time and cost of each request of some traffic that a quota admits.
pub fn admitted(quota: Quota, traffic: &Traffic) -> Vec<(Timestamp, u64)> {
    let mut quotas = Quotas::new(vec![(quota, CheckMode::Enforce)]);
    let mut steps = traffic.steps(&quota);
    steps.retain(|&(at, cost)| quotas.decide(at, cost).admit);
    steps
}
