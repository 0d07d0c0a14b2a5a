//! Rust and Lua decide, settle and peek in lock-step, on random plans under random clocks.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::CheckMode;
use tollgate::limit::{
    Adjustment, Algorithm, Align, AnyState, Charged, Count, Decision, OldestBucket, PartitionId,
    Quota,
};

use crate::ledger::{Quotas, Rows, is_window};
use crate::scripted::{SMALL_BLOCK, Scripted};
use crate::support::redis::Value;
use crate::traffic::{Cost, Gap, START, calendars, window_of};

/// One thing that happens to a plan.
#[derive(Clone, Debug)]
enum Event {
    Decide(Cost),
    Peek(Cost),
    /// Peeks at the cost that just fits, and at one unit more.
    JustFits,
    /// Settles an earlier charge: for each policy, whether units come back or are added, and how many.
    Settle(proptest::sample::Index, [(bool, Cost); 4]),
    /// Takes units out of an earlier charge, as requests do that spend what was charged for several of them.
    Part(proptest::sample::Index, Cost),
    Spend(Spend),
    /// Spends in the windows in which an earlier decision charged.
    SpendThen(proptest::sample::Index, Spend),
    /// Gives back units of the newest charge.
    ReleaseNewest(Cost),
    /// Changes the limits, not the states, for the requests that follow: they are of another tier, after a reload, or
    /// of a gateway with another file.
    Resize(u64),
    Reset,
}

#[derive(Clone, Copy, Debug)]
enum Spend {
    Cost(Cost),
    Absurd(u64),
}

/// How the clock moves before an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tick {
    On(Gap),
    /// Forward by this many microseconds.
    OnBy(u64),
    /// Back by this many thousandths of the window.
    Back(u64),
    /// Back by one window and this many microseconds.
    BackOver(u64),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Both give the same verdict, to the microsecond, whatever happened before: charges, refusals, peeks, settlements,
    /// spends, other limits, resets, clocks that jump either way.
    #[test]
    fn rust_and_lua_agree(
        rows in plans(),
        events in proptest::collection::vec((tick(), event()), 1..50),
    ) {
        agree(&rows, events)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The same law, for logs of many blocks.
    #[test]
    fn rust_and_lua_agree_on_long_logs(
        limit in 20..100_u64,
        count in prop_oneof![Just(Count::Admitted), Just(Count::All)],
        events in proptest::collection::vec((steady_tick(), steady_event()), 50..200),
    ) {
        let quota = Quota { count, ..Quota::of(Algorithm::SlidingLog, limit, Micros(60_000_000)) };
        let rows: Rows = vec![(quota, CheckMode::Enforce)].into();
        agree_with(Scripted::new(rows.clone()).small_blocks(), &rows, events)?;
    }

    /// The same law, where products of counts and microseconds are too large for a double: what fits, fits to the unit.
    #[test]
    fn rust_and_lua_agree_on_what_just_fits(
        buckets in proptest::sample::select(vec![1_u32, 2, 10, 100, 360]),
        limit in (1_u64 << 20)..=(1 << 52),
        window in prop_oneof![Just(2_592_000_000_000_u64), Just(31_536_000_000_000)],
        (spent, phase, inside) in (1..1_000_000_u64, 0..1_000_000_u64, 0..1_000_000_u64),
    ) {
        let algorithm = Algorithm::SlidingWindow { buckets, oldest: OldestBucket::Weighted };
        let quota = Quota::of(algorithm, limit, Micros(window));
        let bucket_us = window / u64::from(buckets);
        let mut lua = Scripted::new(vec![(quota, CheckMode::Enforce)]);
        let mut rust = Quotas::new(vec![(quota, CheckMode::Enforce)]);
        let units = scaled(limit, spent);
        for now in [START + Micros(phase), START + Micros(phase + bucket_us)] {
            prop_assert_eq!(lua.decide(now, units / 2), rust.decide(now, units / 2));
        }
        let oldest = START.0 - START.0 % bucket_us + window + scaled(bucket_us, inside);
        for at in [oldest, oldest + 1, oldest + bucket_us] {
            just_fits(&mut lua, &rust, Timestamp(at))?;
        }
    }
}

/// Returns this many millionths of `whole`.
fn scaled(whole: u64, millionths: u64) -> u64 {
    let part = u128::from(whole) * u128::from(millionths) / 1_000_000;
    u64::try_from(part).expect("a part")
}

/// Asserts that both peek alike at the cost that just fits, and at one unit more.
fn just_fits(lua: &mut Scripted, rust: &Quotas, now: Timestamp) -> Result<(), TestCaseError> {
    let remaining = peeks(rust, now, 0)[0].remaining;
    for cost in [remaining, remaining + 1] {
        prop_assert_eq!(lua.peek(now, cost).to_vec(), peeks(rust, now, cost));
    }
    Ok(())
}

fn agree(rows: &Rows, events: Vec<(Tick, Event)>) -> Result<(), TestCaseError> {
    agree_with(Scripted::new(rows.clone()), rows, events)
}

fn agree_with(
    mut lua: Scripted,
    rows: &Rows,
    events: Vec<(Tick, Event)>,
) -> Result<(), TestCaseError> {
    let mut rust = Quotas::new(rows.clone());
    let all = rows.all();
    let mut charges: Vec<Vec<Option<Charged>>> = Vec::new();
    let mut now = START;
    let first = &rows.quotas[0].0;
    for (tick, event) in events {
        now = tick.from(now, first);
        match event {
            Event::Decide(cost) => {
                let cost = cost.of(first);
                let verdict = rust.decide(now, cost);
                charges.push(
                    verdict
                        .answers
                        .iter()
                        .map(|answer| answer.charged)
                        .collect(),
                );
                prop_assert_eq!(lua.decide(now, cost), verdict);
            }
            Event::Peek(cost) => {
                let cost = cost.of(first);
                prop_assert_eq!(lua.peek(now, cost).to_vec(), peeks(&rust, now, cost));
            }
            Event::JustFits => just_fits(&mut lua, &rust, now)?,
            Event::Settle(index, amounts) if !charges.is_empty() => {
                let decision = index.index(charges.len());
                let adjustment = |policy| adjustment(amounts[usize::from(policy)], first);
                let is_settled: Vec<_> = charges[decision].iter().map(Option::is_some).collect();
                rust.settle(now, &mut charges[decision], &all, adjustment);
                let mut settled = lua.settle(now, decision, &all, adjustment).into_iter();
                for (is_settled, after) in is_settled.into_iter().zip(peeks(&rust, now, 0)) {
                    if is_settled {
                        prop_assert_eq!(settled.next(), Some(after));
                    }
                }
            }
            Event::Part(index, cost) if !charges.is_empty() => {
                let (decision, amount) = (index.index(charges.len()), cost.of(first));
                for charges in [&mut charges, &mut lua.charges] {
                    let part = take_part(&mut charges[decision], rows, amount);
                    charges.push(part);
                }
            }
            Event::Resize(limit) => {
                for rows in [&mut rust.rows, &mut lua.rows] {
                    (rows.quotas.iter_mut()).for_each(|(quota, _)| resize(quota, limit));
                }
            }
            Event::Spend(spend) => {
                let amount = spend.of(first);
                rust.spend(now, amount);
                prop_assert_eq!(lua.spend(now, amount), peeks(&rust, now, 0));
            }
            Event::SpendThen(index, spend) if !charges.is_empty() => {
                let (decision, amount) = (index.index(charges.len()), spend.of(first));
                rust.spend_then(now, &charges[decision], amount);
                let mut said = lua.spend_then(now, decision, amount).into_iter();
                for (row, after) in peeks(&rust, now, 0).into_iter().enumerate() {
                    if charges[decision][row].is_some() && is_window(&rows.quotas[row].0) {
                        prop_assert_eq!(said.next(), Some(after));
                    }
                }
            }
            Event::Settle(..) | Event::Part(..) | Event::SpendThen(..) => {}
            Event::ReleaseNewest(cost) => {
                let amount = cost.of(first);
                rust.release_newest(now, amount);
                prop_assert_eq!(lua.release_newest(now, amount), peeks(&rust, now, 0));
            }
            Event::Reset => {
                rust = Quotas::new(rust.rows);
                prop_assert_eq!(lua.reset(now), peeks(&rust, now, 0));
            }
        }
    }
    for index in all {
        prop_assert!(is_sound(&mut lua, index), "quota {index}");
    }
    Ok(())
}

/// Takes units out of what a decision charged each quota, and returns them as charges.
fn take_part(charged: &mut [Option<Charged>], rows: &Rows, amount: u64) -> Vec<Option<Charged>> {
    let quotas = rows.quotas.iter().map(|(quota, _)| quota);
    let parts = charged.iter_mut().zip(quotas).map(|(charged, quota)| {
        let charged = charged.as_mut()?;
        let amount = amount.min(charged.amount);
        Some(quota.take(charged, amount))
    });
    parts.collect()
}

/// Makes an adjustment that gives units back, or spends them.
fn adjustment((gives_back, amount): (bool, Cost), quota: &Quota) -> Adjustment {
    let amount = amount.of(quota);
    if gives_back {
        Adjustment::GiveBack(amount)
    } else {
        Adjustment::Spend(amount)
    }
}

fn resize(quota: &mut Quota, limit: u64) {
    quota.limit = limit;
    match &mut quota.algorithm {
        Algorithm::Gcra { burst } => *burst = limit,
        Algorithm::LeakyBucket { queue } => *queue = limit - 1,
        Algorithm::Credits { initial } => *initial = limit,
        _ => {}
    }
}

/// Returns whether a key expires as it should, and its value's total is the sum of its parts.
pub(super) fn is_sound(lua: &mut Scripted, index: usize) -> bool {
    let key = lua.key(index);
    let lifetime_ms = lua.command(&[b"PTTL".as_slice(), &key]).integer();
    match lua.rows.quotas[index].0.algorithm {
        _ if lifetime_ms == -2 => true,
        Algorithm::Credits { .. } => lifetime_ms == -1,
        Algorithm::SlidingWindow { buckets, .. } => {
            let index_bytes = if buckets < 128 { 1 } else { 2 };
            let Value::Bytes(value) = lua.command(&[b"GET".as_slice(), &key]) else {
                return false;
            };
            let units_bytes = usize::from(value[0]);
            let buckets = value[15..].chunks(index_bytes + units_bytes);
            let sum: u64 = buckets.map(|bucket| number(&bucket[index_bytes..])).sum();
            lifetime_ms > 0 && (units_bytes == 7 || number(&value[8..15]) == sum)
        }
        Algorithm::SlidingLog => {
            let values = lua.command(&[b"LRANGE".as_slice(), &key, b"0", b"-1"]);
            let Some((Value::Bytes(head), blocks)) = values.list().split_last() else {
                return false;
            };
            lifetime_ms > 0 && is_sound_log(head, blocks)
        }
        _ => lifetime_ms > 0,
    }
}

/// Returns whether the head of a log is right about its blocks, and whether these are well filled.
fn is_sound_log(head: &[u8], blocks: &[Value]) -> bool {
    let pairs = |bytes: &[u8]| -> Vec<(u64, u64)> {
        let pairs = bytes.chunks(14);
        pairs
            .map(|pair| (number(&pair[..7]), number(&pair[7..])))
            .collect()
    };
    let mut blocks: Vec<Vec<(u64, u64)>> = (blocks.iter())
        .map(|block| match block {
            Value::Bytes(bytes) => pairs(bytes),
            _ => Vec::new(),
        })
        .collect();
    let units = |block: &[(u64, u64)]| block.iter().map(|entry| entry.1).sum::<u64>();
    let mut tail = pairs(&head[37..]);
    let (mut skipped, mut index) = (0, Vec::new());
    if !blocks.is_empty() {
        let (bytes, passed) = tail.remove(0);
        skipped = usize::try_from(bytes / 14).expect("a few");
        assert_eq!(units(&blocks[0][..skipped]), passed);
        index = tail.drain(..blocks.len()).collect();
    }
    blocks.push(tail);
    let live: Vec<(u64, u64)> = blocks.concat().split_off(skipped);
    let first = *live.first().expect("an entry");
    let is_indexed = blocks.len() == index.len() + 1
        && (blocks.windows(2).zip(&index)).all(|(pair, (newest, of))| {
            let last = pair[0].last().expect("an entry").0;
            *of == units(&pair[0]) && last <= *newest && *newest <= pair[1][0].0
        });
    let is_filled = |pair: &[Vec<(u64, u64)>]| {
        pair[0].len() + pair[1].len() > SMALL_BLOCK / 2
            || pair[1] == *blocks.last().expect("a block")
    };
    is_indexed
        && number(&head[35..37]) == blocks.len() as u64
        && blocks.windows(2).all(is_filled)
        && live.is_sorted_by_key(|entry| entry.0)
        && number(&head[..7]) == units(&live)
        && number(&head[7..14]) == live.last().expect("an entry").0
        && (number(&head[14..21]), number(&head[21..28])) == first
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns what each quota would decide, and spends nothing.
pub(super) fn peeks(rust: &Quotas, now: Timestamp, cost: u64) -> Vec<Decision> {
    let mut rust = rust.clone();
    let partition_id = PartitionId::new(rust.rows.partition_low.into());
    let peek = |((quota, _), counter): (&(Quota, CheckMode), &mut AnyState)| {
        let at = counter.arrive(quota, now + quota.phase(partition_id));
        counter.decision(quota, cost, at, counter.admits(quota, cost, at))
    };
    (rust.rows.quotas.iter().zip(&mut rust.counters))
        .map(peek)
        .collect()
}

impl Tick {
    pub(super) fn from(self, now: Timestamp, quota: &Quota) -> Timestamp {
        match self {
            Self::On(gap) => now + gap.of(quota),
            Self::OnBy(us) => now + Micros(us),
            Self::Back(permille) => now - Micros(quota.window.0 * permille / 1000),
            Self::BackOver(us) => now - Micros(quota.window.0 + us),
        }
    }
}

impl Spend {
    fn of(self, quota: &Quota) -> u64 {
        match self {
            Self::Cost(cost) => cost.of(quota),
            Self::Absurd(amount) => amount,
        }
    }
}

pub(super) fn tick() -> impl Strategy<Value = Tick> {
    prop_oneof![
        30 => any::<Gap>().prop_map(Tick::On),
        2 => (0..1000_u64).prop_map(Tick::Back),
        1 => (0..4_u64).prop_map(Tick::BackOver),
        1 => (0..5000_u64).prop_map(Tick::Back),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        24 => any::<Cost>().prop_map(Event::Decide),
        3 => any::<Cost>().prop_map(Event::Peek),
        4 => Just(Event::JustFits),
        6 => any::<(proptest::sample::Index, [(bool, Cost); 4])>()
            .prop_map(|(index, amounts)| Event::Settle(index, amounts)),
        3 => any::<(proptest::sample::Index, Cost)>()
            .prop_map(|(index, cost)| Event::Part(index, cost)),
        4 => (1..=LIMIT_MAX).prop_map(Event::Resize),
        2 => spend().prop_map(Event::Spend),
        3 => (any::<proptest::sample::Index>(), spend())
            .prop_map(|(index, spend)| Event::SpendThen(index, spend)),
        2 => any::<Cost>().prop_map(Event::ReleaseNewest),
        1 => Just(Event::Reset),
    ]
}

fn spend() -> impl Strategy<Value = Spend> {
    let absurd = prop_oneof![Just(1 << 31), (1_u64 << 50)..(1 << 53), Just(u64::MAX)];
    prop_oneof![
        2 => any::<Cost>().prop_map(Spend::Cost),
        1 => absurd.prop_map(Spend::Absurd),
    ]
}

/// The largest limit that an event sets.
const LIMIT_MAX: u64 = 40;

/// Mostly moves on a little; now and then on by most of a window, back within one, or to before it.
fn steady_tick() -> impl Strategy<Value = Tick> {
    prop_oneof![
        40 => (0..6_000_u64).prop_map(|us| Tick::OnBy(us * 100)),
        1 => (30_000_000..60_000_000_u64).prop_map(Tick::OnBy),
        1 => (0..1000_u64).prop_map(Tick::Back),
        1 => (0..10_000_000_u64).prop_map(Tick::BackOver),
    ]
}

/// Mostly asks for one unit.
fn steady_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        60 => Just(Event::Decide(Cost::Units(1))),
        6 => (2..4_u64).prop_map(|units| Event::Decide(Cost::Units(units))),
        1 => (2..20_u64).prop_map(|units| Event::Decide(Cost::Units(units))),
        6 => (0..1000_u64).prop_map(|permille| Event::Peek(Cost::Permille(permille))),
        9 => (any::<proptest::sample::Index>(), 1..3_u64)
            .prop_map(|(index, units)| Event::Settle(index, [(true, Cost::Units(units)); 4])),
        3 => any::<proptest::sample::Index>()
            .prop_map(|index| Event::Part(index, Cost::Units(1))),
        1 => (1..20_u64).prop_map(|units| Event::Spend(Spend::Cost(Cost::Units(units)))),
        2 => (1..5_u64).prop_map(|units| Event::ReleaseNewest(Cost::Units(units))),
        1 => (1..=LIMIT_MAX).prop_map(Event::Resize),
    ]
}

/// Makes plans of one to four quotas, some of them followed by credits that take what they refuse.
pub(super) fn plans() -> impl Strategy<Value = Rows> {
    let mode = prop_oneof![
        3 => Just(CheckMode::Enforce),
        1 => Just(CheckMode::Shadow),
        2 => Just(CheckMode::Candidate),
    ];
    let spill = proptest::option::of(0..60_u64);
    let quota = (quota(), mode, any::<bool>(), spill);
    let quotas = proptest::collection::vec(quota, 1..5);
    (quotas, any::<u64>()).prop_map(|(quotas, partition_low)| {
        let (mut policy, mut rows, mut policies) = (0, Vec::new(), Vec::new());
        for (quota, mode, begins, spill) in quotas {
            policy += u16::from(begins);
            rows.push((quota, mode));
            let credits = spill.filter(|_| mode == CheckMode::Enforce && may_spill(&quota));
            rows.extend(credits.map(|initial| (credits_of(&quota, initial), CheckMode::Spill)));
            policies.resize(rows.len(), policy % 4);
        }
        Rows {
            policies,
            partition_low,
            ..Rows::from(rows)
        }
    })
}

/// Returns whether credits may take what a quota refuses.
fn may_spill(quota: &Quota) -> bool {
    let is_fixed = matches!(
        quota.algorithm,
        Algorithm::FixedWindow | Algorithm::Calendar(_)
    );
    is_fixed && quota.count == Count::Admitted
}

fn credits_of(quota: &Quota, initial: u64) -> Quota {
    Quota {
        algorithm: Algorithm::Credits { initial },
        align: Align::Epoch,
        ..*quota
    }
}

fn quota() -> impl Strategy<Value = Quota> {
    let oldest = [
        OldestBucket::Weighted,
        OldestBucket::Whole,
        OldestBucket::Dropped,
    ];
    let sliding = (
        proptest::sample::select(vec![1, 2, 10, 100, 127, 128, 360]),
        proptest::sample::select(oldest.to_vec()),
    );
    // Longer than a test takes, as windows are.
    let penalties = (60_000_000_u64..100_000_000_000, 1..4_u32);
    let penalties = penalties.prop_map(|(length, growth)| Algorithm::Penalty {
        length: Micros(length),
        growth,
    });
    let algorithm = prop_oneof![
        2 => Just(Algorithm::FixedWindow),
        1 => calendars().prop_map(Algorithm::Calendar),
        3 => sliding.prop_map(|(buckets, oldest)| Algorithm::SlidingWindow { buckets, oldest }),
        3 => Just(Algorithm::SlidingLog),
        1 => (1..40_u64).prop_map(|burst| Algorithm::Gcra { burst }),
        1 => (0..20_u64).prop_map(|queue| Algorithm::LeakyBucket { queue }),
        1 => (0..60_u64).prop_map(|initial| Algorithm::Credits { initial }),
        1 => penalties,
    ];
    let limit = prop_oneof![
        8 => 1..30_u64,
        1 => 1..2_000_000_u64,
        1 => (1_u64 << 40)..=(1 << 52),
    ];
    // No shorter than a test takes, because the server expires keys by its own clock, a second after they end.
    let window_us =
        proptest::sample::select(vec![60_000_000, 2_592_000_000_000, 31_536_000_000_000]);
    let count = prop_oneof![3 => Just(Count::Admitted), 1 => Just(Count::All)];
    let align = prop_oneof![Just(Align::Epoch), Just(Align::Spread), Just(Align::First)];
    let quota = (limit, window_us, algorithm, count, align);
    quota.prop_map(|(limit, window_us, algorithm, count, align)| {
        let never_all = matches!(
            algorithm,
            Algorithm::Gcra { .. }
                | Algorithm::LeakyBucket { .. }
                | Algorithm::Credits { .. }
                | Algorithm::Penalty { .. }
        );
        Quota {
            limit,
            window: window_of(algorithm, window_us),
            algorithm,
            count: if never_all { Count::Admitted } else { count },
            align: match algorithm {
                Algorithm::FixedWindow => align,
                _ if align == Align::First => Align::Epoch,
                _ => align,
            },
            can_come_back: true,
        }
    })
}
