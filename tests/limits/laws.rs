//! The laws that the limits promise, on random quotas and random traffic.

use proptest::prelude::*;
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::CheckMode;
use tollgate::limit::{
    Algorithm, Align, AnyState, Charged, Count, Decision, OldestBucket, Quota, Retry, State,
};

use crate::ledger::{Quotas, is_window};
use crate::traffic::{Cost, Gap, START, admitted, calendars, quota_of, traffic};

proptest! {
    /// fixed-window: at most `q` per aligned window.
    #[test]
    fn fixed_window_admits_at_most_its_quota_per_aligned_window(
        quota in quota_of(Just(Algorithm::FixedWindow)),
        traffic in traffic(),
    ) {
        let admitted = admitted(quota, &traffic);
        for &(at, _) in &admitted {
            let window = at.0 / quota.window.0;
            let units = units_where(&admitted, |other| other.0 / quota.window.0 == window);
            prop_assert!(units <= quota.limit, "{units} in window {window}");
        }
    }

    /// A fixed window that a client's first unit begins: at most `q` in it, so `2q` in any stretch of `w`.
    #[test]
    fn windows_that_begin_with_the_first_unit_admit_at_most_twice_in_any_stretch(
        quota in quota_of(Just(Algorithm::FixedWindow)),
        traffic in traffic(),
    ) {
        let quota = Quota { align: Align::First, ..quota };
        let admitted = admitted(quota, &traffic);
        let most = most_in_any_stretch(&admitted, quota.window.0);
        prop_assert!(most <= 2 * quota.limit, "{most}");
        let mut begun: Option<(Timestamp, u64)> = None;
        for &(at, cost) in admitted.iter().filter(|(_, cost)| *cost > 0) {
            let current = begun.filter(|(start, _)| at.since(*start) < quota.window);
            let (start, units) = current.unwrap_or((at, 0));
            prop_assert!(units + cost <= quota.limit, "{units} and {cost} since {start:?}");
            begun = Some((start, units + cost));
        }
    }

    /// Calendar quotas: at most `q` per window of the calendar.
    #[test]
    fn calendars_admit_at_most_their_quota_per_window(
        quota in quota_of(calendars().prop_map(Algorithm::Calendar)),
        traffic in traffic(),
    ) {
        let Algorithm::Calendar(calendar) = quota.algorithm else { unreachable!() };
        let admitted = admitted(quota, &traffic);
        for &(at, _) in &admitted {
            let window = calendar.windows(at).current;
            let units = units_where(&admitted, |other| calendar.windows(other).current == window);
            prop_assert!(units <= quota.limit, "{units} in {window:?}");
        }
    }

    /// sliding-window: weighted and dropped admit at most `q` in any stretch of `w - b`, whole at
    /// most `q` in any stretch of `w`.
    #[test]
    fn sliding_window_admits_at_most_its_quota_in_any_stretch(
        (buckets, oldest) in sliding(),
        quota in quota_of(Just(Algorithm::FixedWindow)),
        traffic in traffic(),
    ) {
        let quota = Quota { algorithm: Algorithm::SlidingWindow { buckets, oldest }, ..quota };
        let bucket_us = quota.window.0 / u64::from(buckets);
        let stretch_us = match oldest {
            OldestBucket::Whole => quota.window.0,
            OldestBucket::Weighted | OldestBucket::Dropped => quota.window.0 - bucket_us,
        };
        let most = most_in_any_stretch(&admitted(quota, &traffic), stretch_us);
        prop_assert!(most <= quota.limit, "{most} in {stretch_us} us");
    }

    /// sliding-window with one bucket, dropped, is the fixed window.
    #[test]
    fn one_dropped_bucket_is_the_fixed_window(
        quota in quota_of(Just(Algorithm::FixedWindow)),
        traffic in traffic(),
    ) {
        let dropped = Algorithm::SlidingWindow { buckets: 1, oldest: OldestBucket::Dropped };
        let mut fixed = Client::new(quota);
        let mut sliding = Client::new(Quota { algorithm: dropped, ..quota });
        for (at, cost) in traffic.steps(&quota) {
            prop_assert_eq!(fixed.ask(at, cost), sliding.ask(at, cost));
        }
    }

    /// sliding-log: exactly, at most `q` in any stretch of `w`.
    #[test]
    fn sliding_log_admits_at_most_its_quota_in_any_window(
        quota in quota_of(Just(Algorithm::SlidingLog)),
        traffic in traffic(),
    ) {
        let most = most_in_any_stretch(&admitted(quota, &traffic), quota.window.0);
        prop_assert!(most <= quota.limit, "{most}");
    }

    /// sliding-log with refused costs counted answers as if it forgot nothing that is inside the
    /// window, and keeps at most `q + 1` entries.
    #[test]
    fn log_that_counts_refused_costs_is_exact_and_bounded(
        quota in quota_of(Just(Algorithm::SlidingLog)),
        traffic in traffic(),
    ) {
        let quota = Quota { count: Count::All, ..quota };
        let mut client = Client::new(quota);
        let mut asked = Vec::new();
        for (at, cost) in traffic.steps(&quota) {
            let used = units_where(&asked, |other| at.0 - other.0 < quota.window.0);
            asked.push((at, cost));
            prop_assert_eq!(client.ask(at, cost).admit, used + cost <= quota.limit);
            let AnyState::SlidingLog(log) = client.counter() else { unreachable!("a log") };
            // Dead entries are at most as many as live ones, and a vector's capacity doubles.
            let bytes_max = 4 * 16 * usize::try_from(quota.limit + 1).expect("small");
            prop_assert!(log.heap_bytes() <= bytes_max, "{} bytes", log.heap_bytes());
        }
    }

    /// gcra: at most `burst + d/T` in any stretch of `d`.
    #[test]
    fn gcra_admits_at_most_its_burst_and_its_rate_in_any_stretch(
        burst in 1..40_u64,
        quota in quota_of(Just(Algorithm::Gcra { burst: 1 })),
        traffic in traffic(),
    ) {
        let quota = Quota { algorithm: Algorithm::Gcra { burst }, ..quota };
        gcra_holds(&quota, &admitted(quota, &traffic))?;
    }

    /// Gateways or tiers with different limits that share a state: each one's own law holds for what it admits,
    /// whatever the others refuse or log in between.
    #[test]
    fn quotas_of_several_sizes_that_share_a_state_each_keep_their_own_law(
        quota in quota_of(prop_oneof![Just(Algorithm::SlidingLog), Just(Algorithm::Gcra { burst: 1 })]),
        numbers in prop::array::uniform3((1..60_u64, 1..60_u64)),
        traffic in traffic(),
        turns in prop::collection::vec(0..3_usize, 60),
    ) {
        let (is_log, window_us) = (quota.algorithm == Algorithm::SlidingLog, quota.window.0);
        let algorithm = |burst| if is_log { quota.algorithm } else { Algorithm::Gcra { burst } };
        let count = if is_log { Count::All } else { quota.count };
        let quotas = numbers.map(|(limit, burst)| Quota {
            limit,
            algorithm: algorithm(burst),
            count,
            ..quota
        });
        let (mut client, mut admitted) = (Client::new(quota), [const { Vec::new() }; 3]);
        for ((at, cost), turn) in traffic.steps(&quotas[0]).into_iter().zip(turns) {
            client.0.rows.quotas[0].0 = quotas[turn];
            if client.ask(at, cost).admit {
                admitted[turn].push((at, cost));
            }
        }
        for (quota, admitted) in quotas.iter().zip(&admitted) {
            if is_log {
                prop_assert!(most_in_any_stretch(admitted, window_us) <= quota.limit);
            } else {
                gcra_holds(quota, admitted)?;
            }
        }
    }

    /// leaky-bucket: departures are `T` apart (a unit each), and at most `queue` units wait.
    #[test]
    fn leaky_bucket_departs_evenly_and_bounds_its_queue(
        queue in 0..20_u64,
        quota in quota_of(Just(Algorithm::LeakyBucket { queue: 0 })),
        traffic in traffic(),
    ) {
        let quota = Quota { algorithm: Algorithm::LeakyBucket { queue }, ..quota };
        let mut client = Client::new(quota);
        let mut free_at = Timestamp(0);
        let mut departures = Vec::new();
        for (at, cost) in traffic.steps(&quota) {
            let decision = client.ask(at, cost);
            if !decision.admit || cost == 0 {
                prop_assert_eq!(decision.wait, Micros(0));
                continue;
            }
            let departs = at + decision.wait;
            prop_assert!(departs >= free_at);
            prop_assert!(decision.wait == Micros(0) || departs == free_at, "waits for nothing");
            free_at = departs + Micros(cost * quota.interval_us());
            departures.push((departs, cost));
            let waiting = units_where(&departures, |departs| departs > at);
            prop_assert!(waiting <= queue, "{waiting} wait");
        }
    }

    /// `retry`, `next` and `reset` are tight: one microsecond earlier the answer is still no, at that time it is yes;
    /// and retry is never if, and only if, the cost exceeds what the quota can hold.
    #[test]
    fn retry_next_and_reset_are_tight(
        quota in any_quota(),
        traffic in traffic(),
        spent in proptest::collection::vec(any::<proptest::sample::Index>(), 0..3),
        cost in any::<Cost>(),
    ) {
        let mut client = Client::new(quota);
        let steps = traffic.steps(&quota);
        for (step, &(at, cost)) in steps.iter().enumerate() {
            client.ask(at, cost);
            if spent.iter().any(|index| index.index(steps.len()) == step) {
                client.0.spend(at, cost);
            }
        }
        let now = steps.last().expect("traffic is not empty").0;
        let cost = cost.of(&quota);
        let peek = client.peek(now, cost);
        let fits = |after_us| client.peek(now + Micros(after_us), cost).admit;
        match peek.retry {
            Retry::Never => prop_assert!(cost > quota.capacity() && !peek.admit),
            Retry::After(Micros(0)) => prop_assert!(peek.admit),
            Retry::After(Micros(us)) => prop_assert!(!peek.admit && !fits(us - 1) && fits(us)),
        }
        prop_assert!(cost <= quota.capacity() || peek.retry == Retry::Never);

        let remaining = |after_us| client.peek(now + Micros(after_us), 0).remaining;
        match peek.next {
            None => prop_assert_eq!((peek.remaining, peek.reset), (quota.capacity(), Micros(0))),
            Some(next) => {
                prop_assert_eq!(remaining(next.0 - 1), peek.remaining);
                prop_assert!(remaining(next.0) > peek.remaining);
                prop_assert!(remaining(peek.reset.0 - 1) < quota.capacity());
                let whole = client.peek(now + peek.reset, 0);
                prop_assert_eq!((whole.remaining, whole.next), (quota.capacity(), None));
            }
        }
    }

    /// sliding-window, weighted: a client that paces itself at `q` per `w` gets all of it (only in the very first
    /// microsecond of a bucket may it be told to wait for one).
    ///
    /// To pace is to let at least `w / q` pass after each admitted request; a client that was told to wait paces itself
    /// from then on.
    #[test]
    fn paced_client_gets_all_of_its_quota(
        (buckets, _) in sliding(),
        limit in 1..60_u64,
        phase_us in prop_oneof![Just(0), 0..60_000_u64],
    ) {
        let quota = Quota::of(Algorithm::SlidingWindow { buckets, oldest: OldestBucket::Weighted }, limit, Micros(60_000));
        let bucket_us = quota.window.0 / u64::from(buckets);
        let mut client = Client::new(quota);
        let mut at = START + Micros(phase_us);
        for _ in 0..5 * limit {
            let decision = client.ask(at, 1);
            if !decision.admit {
                prop_assert_eq!((decision.retry, at.0 % bucket_us), (Retry::After(Micros(1)), 0));
                at = at + Micros(1);
                prop_assert!(client.ask(at, 1).admit);
            }
            at = at + Micros(quota.interval_us());
        }
    }

    /// A refused plan leaves every counter unchanged, except those that count all; an admitted one
    /// charges every enforced quota, and each shadow that admits by itself.
    #[test]
    fn plan_charges_all_or_nothing(
        quotas in proptest::collection::vec((any_quota(), mode()), 1..5),
        traffic in traffic(),
    ) {
        let mut plan = Quotas::new(quotas.clone());
        for (at, cost) in traffic.steps(&quotas[0].0) {
            let before = plan.clone();
            let verdict = plan.decide(at, cost);
            for (index, (quota, _)) in quotas.iter().enumerate() {
                let mut counter = before.counters[index].clone();
                let at = counter.arrive(quota, at);
                let admits = verdict.answers[index].decision.expect("kept").admit;
                if quota.count == Count::All || (verdict.admit && admits) {
                    counter.charge(quota, cost, at);
                }
                prop_assert_eq!(&plan.counters[index], &counter);
            }
        }
    }

    /// Giving back never yields more than if the charge had not been made (with a steady clock, and nothing forgotten
    /// by gcra's cap or by a log that counts refused costs). Windows that begin with a unit are left out: if that unit
    /// comes back and others do not, the window stays where it is, so it ends sooner.
    #[test]
    fn giving_back_yields_no_more_than_never_charging(
        quota in any_quota(),
        traffic in traffic(),
        returns in proptest::collection::vec((0..12_usize, 0..3_u64, 0..3_u64), 60),
    ) {
        let quota = match quota.algorithm {
            Algorithm::SlidingLog => Quota { count: Count::Admitted, ..quota },
            _ => Quota { align: Align::Epoch, ..quota },
        };
        // Of each charge, some is given back in two parts a few steps later. The other ledger is
        // charged what is not given back, when the first one is.
        let mut charging = Client::new(quota);
        let mut never = Client::new(quota);
        let mut due: Vec<(usize, Option<Charged>, u64)> = Vec::new();
        for (step, (at, cost)) in traffic.steps(&quota).into_iter().enumerate() {
            for (_, charged, amount) in due.iter_mut().filter(|due| due.0 == step) {
                charging.0.release(at, std::slice::from_mut(charged), *amount);
            }
            let charged = charging.0.decide(at, cost).answers[0].charged;
            let (delay, first, second) = returns[step];
            let (first, second) = (first.min(cost), second.min(cost - first.min(cost)));
            match charged {
                Some(_) => {
                    never.0.spend(at, cost - first - second);
                    // Both parts come out of the same charge, the second out of what the first left.
                    let rest = charged.map(|charged| Charged { amount: charged.amount - first, ..charged });
                    due.push((step + 1 + delay, charged, first));
                    due.push((step + 2 + delay, rest, second));
                }
                None if quota.count == Count::All => never.0.spend(at, cost),
                None => {}
            }
            for later_us in [0, quota.window.0 / 7, quota.window.0 - 1, 2 * quota.window.0] {
                let later = at + Micros(later_us);
                let (charging, never) = (charging.peek(later, 0), never.peek(later, 0));
                prop_assert!(charging.remaining <= never.remaining, "{charging:?} {never:?}");
            }
        }
    }

    /// Counting units late, in the window or bucket in which they were spent, equals counting them then.
    #[test]
    fn counting_late_is_counting_then(
        quota in any_quota().prop_filter("a window", |quota| is_window(quota) && quota.align != Align::First),
        traffic in traffic(),
        delays in proptest::collection::vec(0..12_usize, 60),
    ) {
        let (mut then, mut late) = (Client::new(quota), Client::new(quota));
        let mut due: Vec<(usize, Charged)> = Vec::new();
        let steps = traffic.steps(&quota);
        let last = steps.len() - 1;
        for (step, &(at, cost)) in steps.iter().enumerate() {
            let at_once = then.spend(at, cost);
            due.push(((step + delays[step]).min(last), at_once));
            for (_, charged) in due.iter().filter(|due| due.0 == step) {
                late.0.spend_then(at, &[Some(*charged)], charged.amount);
            }
        }
        let now = steps[last].0;
        for later_us in [0, quota.window.0 / 7, quota.window.0 - 1, 2 * quota.window.0] {
            let later = now + Micros(later_us);
            prop_assert_eq!(late.peek(later, 0), then.peek(later, 0));
        }
    }

    /// gcra: a charge comes back in full for as long as the bucket would have been busy without it, and then it is as
    /// if the charge had never been made.
    #[test]
    fn all_of_a_charge_comes_back_while_the_bucket_would_have_been_busy(
        quota in quota_of(Just(Algorithm::Gcra { burst: 1 })),
        burst in 2..400_u64,
        traffic in traffic(),
        of in any::<prop::sample::Index>(),
        permille in 0..1000_u64,
    ) {
        let quota = Quota { algorithm: Algorithm::Gcra { burst }, ..quota };
        let (mut charging, mut never) = (Client::new(quota), Client::new(quota));
        let steps = traffic.steps(&quota);
        let (&(at, cost), before) = steps[..=of.index(steps.len())].split_last().expect("one");
        for &(at, cost) in before {
            charging.ask(at, cost);
            never.ask(at, cost);
        }
        let charged = charging.0.decide(at, cost).answers[0].charged;
        prop_assume!(charged.is_some_and(|charged| charged.debt > Micros(0)));
        let debt_us = charged.map_or(0, |charged| charged.debt.0);
        let later = at + Micros(debt_us * permille / 1000);
        charging.0.release(later, &mut [charged], cost);
        prop_assert_eq!(charging.peek(later, 0), never.peek(later, 0));
    }

    /// A clock that steps back never reopens a window, and the quota is whole again within two
    /// windows (sliding-window: and a bucket; gcra: `2*burst*T`).
    #[test]
    fn clock_that_steps_back_neither_opens_nor_jams(
        quota in any_quota(),
        traffic in traffic(),
        back in proptest::collection::vec(prop_oneof![Just(0), 0..400_u64, 0..20_000_u64], 60),
        spends in any::<bool>(),
    ) {
        let mut client = Client::new(quota);
        let mut behind = Micros(0);
        let mut now = START;
        for ((at, cost), back) in traffic.steps(&quota).into_iter().zip(back) {
            now = at - behind;
            client.ask(now, cost);
            if spends {
                client.0.spend(now, cost);
            }
            let before = client.peek(now, 0).remaining;
            let back_us = back * quota.window.0 / 1000;
            behind = Micros(behind.0 + back_us);
            now = now - Micros(back_us);
            let after = client.ask(now, 0).remaining;
            prop_assert!(after <= before, "{after} > {before}");
        }
        let whole_after = match quota.algorithm {
            Algorithm::SlidingWindow { buckets, .. } => {
                2 * quota.window.0 + quota.window.0 / u64::from(buckets)
            }
            Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => {
                2 * quota.capacity() * quota.interval_us()
            }
            Algorithm::Calendar(_) => 2 * quota.counts_for().0,
            Algorithm::FixedWindow | Algorithm::SlidingLog => 2 * quota.window.0,
            Algorithm::Credits { .. } | Algorithm::InFlight | Algorithm::Penalty { .. } => {
                unreachable!("they are no quotas over time")
            }
        };
        let peek = client.peek(now + Micros(whole_after), 0);
        prop_assert_eq!((peek.remaining, peek.reset), (quota.capacity(), Micros(0)));
    }

    /// A state may be dropped exactly when its quota is whole.
    #[test]
    fn state_is_whole_iff_reset_is_zero(
        quota in any_quota(),
        traffic in traffic(),
        gap in any::<Gap>(),
    ) {
        let mut client = Client::new(quota);
        let steps = traffic.steps(&quota);
        for &(at, cost) in &steps {
            client.ask(at, cost);
        }
        let now = steps.last().expect("traffic is not empty").0 + gap.of(&quota);
        let is_whole = client.counter().is_whole(&quota, now);
        prop_assert_eq!(is_whole, client.peek(now, 0).reset == Micros(0));
    }
}

/// A client of one quota.
struct Client(Quotas);

impl Client {
    fn new(quota: Quota) -> Self {
        Self(Quotas::new(vec![(quota, CheckMode::Enforce)]))
    }

    fn ask(&mut self, at: Timestamp, cost: u64) -> Decision {
        let answer = self.0.decide(at, cost).answers[0];
        answer.decision.expect("a decision is kept")
    }

    /// Spends without asking; returns the charge.
    fn spend(&mut self, at: Timestamp, cost: u64) -> Charged {
        let quota = &self.0.rows.quotas[0].0;
        let counter = &mut self.0.counters[0];
        let at = counter.arrive(quota, at);
        counter.charge(quota, cost, at)
    }

    /// Returns the decision that a request would get, and spends nothing.
    fn peek(&self, at: Timestamp, cost: u64) -> Decision {
        let quota = &self.0.rows.quotas[0].0;
        let mut counter = self.0.counters[0].clone();
        let at = counter.arrive(quota, at);
        counter.decision(quota, cost, at, counter.admits(quota, cost, at))
    }

    fn counter(&self) -> &AnyState {
        &self.0.counters[0]
    }
}

fn any_quota() -> impl Strategy<Value = Quota> {
    let algorithm = prop_oneof![
        Just(Algorithm::FixedWindow),
        calendars().prop_map(Algorithm::Calendar),
        sliding().prop_map(|(buckets, oldest)| Algorithm::SlidingWindow { buckets, oldest }),
        Just(Algorithm::SlidingLog),
        (1..40_u64).prop_map(|burst| Algorithm::Gcra { burst }),
        (0..20_u64).prop_map(|queue| Algorithm::LeakyBucket { queue }),
    ];
    let quota = (quota_of(algorithm), any::<bool>(), any::<bool>());
    quota.prop_map(|(quota, all, first)| match quota.algorithm {
        Algorithm::Gcra { .. } | Algorithm::LeakyBucket { .. } => quota,
        algorithm => Quota {
            count: if all { Count::All } else { Count::Admitted },
            align: match algorithm {
                Algorithm::FixedWindow if first => Align::First,
                _ => Align::Epoch,
            },
            ..quota
        },
    })
}

fn sliding() -> impl Strategy<Value = (u32, OldestBucket)> {
    let oldest = [
        OldestBucket::Weighted,
        OldestBucket::Whole,
        OldestBucket::Dropped,
    ];
    (
        proptest::sample::select(vec![1, 2, 4, 5, 10, 100]),
        proptest::sample::select(oldest.to_vec()),
    )
}

fn mode() -> impl Strategy<Value = CheckMode> {
    proptest::sample::select(vec![CheckMode::Enforce, CheckMode::Shadow])
}

fn gcra_holds(quota: &Quota, admitted: &[(Timestamp, u64)]) -> Result<(), TestCaseError> {
    for (first, &(from, _)) in admitted.iter().enumerate() {
        let mut units = 0;
        for &(to, cost) in &admitted[first..] {
            units += cost;
            let most = quota.capacity() + to.since(from).0 / quota.interval_us();
            prop_assert!(units <= most, "{units} > {most} from {from:?} to {to:?}");
        }
    }
    Ok(())
}

fn units_where(units: &[(Timestamp, u64)], counts: impl Fn(Timestamp) -> bool) -> u64 {
    (units.iter())
        .filter(|(at, _)| counts(*at))
        .map(|(_, cost)| cost)
        .sum()
}

/// Returns the most units admitted in any half-open stretch; the fullest stretch starts with an admission.
fn most_in_any_stretch(admitted: &[(Timestamp, u64)], stretch_us: u64) -> u64 {
    let from = |first: Timestamp| {
        units_where(admitted, |at| at >= first && at.since(first).0 < stretch_us)
    };
    (admitted.iter().map(|&(at, _)| from(at)))
        .max()
        .unwrap_or(0)
}
