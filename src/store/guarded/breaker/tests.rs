use std::collections::VecDeque;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

const START: Timestamp = Timestamp(1_700_000_000_000_000);
const COOLDOWN: Micros = Micros::from_secs(2);

fn settings() -> BreakerSettings {
    BreakerSettings {
        failures: 5,
        failure_ratio: 0.5,
        window: Duration::from_secs(10),
        cooldown: COOLDOWN.into(),
    }
}

fn breaker() -> (CircuitBreaker, Clock) {
    let clock = Clock::manual(START);
    let breaker = CircuitBreaker::new("a.test:6379".into(), settings(), clock.clone());
    (breaker, clock)
}

/// Makes a call that is answered.
fn succeed(breaker: &CircuitBreaker) {
    match breaker.permit().expect("it may be asked") {
        Permit::Pass => breaker.succeeded(0),
        Permit::Probe(probe) => probe.succeed(),
    }
}

/// Makes a call that fails.
fn fail(breaker: &CircuitBreaker) {
    match breaker.permit().expect("it may be asked") {
        Permit::Pass => breaker.failed(&"a fault"),
        Permit::Probe(probe) => probe.fail(),
    }
}

fn open(breaker: &CircuitBreaker) {
    (0..5).for_each(|_| fail(breaker));
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn probe_that_succeeds_closes_it() {
    let (breaker, clock) = breaker();
    open(&breaker);
    clock.advance(Micros(COOLDOWN.0 - 1));
    assert!(breaker.permit().is_none());
    clock.advance(Micros(1));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    succeed(&breaker);
    assert_eq!(breaker.state(), BreakerState::Closed);
    assert_eq!(breaker.state(), BreakerState::Closed);
    (0..4).for_each(|_| fail(&breaker));
    assert_eq!(breaker.state(), BreakerState::Closed, "it counts anew");
}

#[test]
fn probe_that_fails_opens_it_for_another_cooldown() {
    let (breaker, clock) = breaker();
    open(&breaker);
    clock.advance(COOLDOWN);
    fail(&breaker);
    assert_eq!(breaker.state(), BreakerState::Open);
    clock.advance(COOLDOWN);
    succeed(&breaker);
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn cancelled_probe_leaves_its_place_to_another() {
    let (breaker, clock) = breaker();
    open(&breaker);
    clock.advance(COOLDOWN);
    let probe = breaker.permit();
    assert!(probe.is_some() && breaker.permit().is_none());
    drop(probe);
    succeed(&breaker);
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn only_a_probe_counts_while_it_is_not_closed() {
    let (breaker, clock) = breaker();
    open(&breaker);
    breaker.succeeded(0);
    assert_eq!(breaker.state(), BreakerState::Open);
    clock.advance(COOLDOWN);
    breaker.succeeded(0);
    (0..9).for_each(|_| breaker.failed(&"a fault from before"));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    succeed(&breaker);
    (0..4).for_each(|_| fail(&breaker));
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn new_settings_hold_at_once() {
    let (breaker, _) = breaker();
    breaker.set(BreakerSettings {
        failures: 1,
        ..settings()
    });
    fail(&breaker);
    assert_eq!(breaker.state(), BreakerState::Open);
}

#[test]
fn shorter_cooldown_holds_for_one_that_is_open() {
    let (breaker, clock) = breaker();
    let long = Duration::from_mins(10);
    breaker.set(BreakerSettings {
        cooldown: long,
        ..settings()
    });
    open(&breaker);
    breaker.set(settings());
    clock.advance(Micros(COOLDOWN.0 - 1));
    assert_eq!(breaker.state(), BreakerState::Open);
    clock.advance(Micros(1));
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    succeed(&breaker);
    breaker.set(settings());
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn one_probe_at_a_time_passes_however_many_ask() {
    const THREADS: usize = 4;
    let (breaker, clock) = breaker();
    let (probing, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let passed = AtomicUsize::new(0);
    open(&breaker);
    clock.advance(COOLDOWN);
    let begin = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (breaker, begin) = (&breaker, &begin);
            let (probing, most, passed) = (&probing, &most, &passed);
            scope.spawn(move || {
                begin.wait();
                for _ in 0..2_000 {
                    let Some(permit) = breaker.permit() else {
                        continue;
                    };
                    most.fetch_max(probing.fetch_add(1, Relaxed) + 1, Relaxed);
                    passed.fetch_add(1, Relaxed);
                    probing.fetch_sub(1, Relaxed);
                    drop(permit);
                }
            });
        }
    });
    assert_eq!(most.into_inner(), 1);
    assert!(passed.into_inner() > 0);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Succeed,
    Fail,
    Pass(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        6 => Just(Event::Succeed),
        5 => Just(Event::Fail),
        2 => (1_u64..4_000).prop_map(Event::Pass),
    ];
    prop::collection::vec(one, 0..200)
}

proptest! {
    /// A closed breaker opens exactly when enough calls have failed in a row, or when too large a share has failed of
    /// at least 20 calls in a window, which may be up to a tenth longer than configured.
    #[test]
    fn opens_exactly_when_it_should(events in events()) {
        let (breaker, clock) = breaker();
        let mut calls: VecDeque<(Timestamp, bool)> = VecDeque::new();
        let mut in_row = 0;
        for event in events {
            match event {
                Event::Pass(ms) => {
                    for _ in 0..ms {
                        clock.advance(Micros(1_000));
                        if clock.now().0 % 100_000 == 0 {
                            breaker.sweep();
                        }
                    }
                    continue;
                }
                Event::Succeed => {
                    in_row = 0;
                    succeed(&breaker);
                    calls.push_back((clock.now(), true));
                }
                Event::Fail => {
                    in_row += 1;
                    fail(&breaker);
                    calls.push_back((clock.now(), false));
                }
            }
            let share_since = |us: u64| {
                let recent = calls.iter().filter(|(at, _)| at.0 >= us);
                let recent: Vec<bool> = recent.map(|(_, is_good)| *is_good).collect();
                let failures = recent.iter().filter(|is_good| !**is_good).count();
                recent.len() >= 20 && 2 * failures > recent.len()
            };
            let is_open = breaker.state() != BreakerState::Closed;
            if in_row >= 5 {
                prop_assert!(is_open);
            } else if matches!(event, Event::Fail) {
                // The breaker may begin the window at any of these sweeps, and may include the calls of that moment or
                // not.
                let latest = (clock.now().0 - 10_000_000) / 100_000;
                let sweeps = (latest - 11..=latest).map(|sweep| sweep * 100_000);
                let shares = sweeps.flat_map(|us| [us, us + 1]).map(share_since);
                let shares: Vec<bool> = shares.collect();
                prop_assert!(shares.contains(&is_open), "{shares:?} {is_open}");
            }
            if is_open {
                return Ok(());
            }
        }
    }
}
