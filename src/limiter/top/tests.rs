use super::*;
use crate::limit::{Algorithm, Retry};
use std::collections::BTreeMap;

const START: Timestamp = Timestamp(1_700_000_000_000_000);

fn client(number: u64) -> PartitionId {
    let digest = blake3::hash(&number.to_le_bytes());
    let bits = digest.as_bytes()[..16].try_into().expect("16 bytes");
    PartitionId::new(u128::from_le_bytes(bits))
}

fn request(number: u64, at: Timestamp) -> SeenRequest<'static> {
    SeenRequest {
        client: client(number),
        at,
        is_refused: false,
        spent: 0,
        tightest: None,
    }
}

fn worker(index: usize) -> WorkerIndex {
    Metrics::new(1).worker(index)
}

fn shown() -> Box<str> {
    "shown".into()
}

#[test]
fn counts_are_between_their_bounds_and_who_is_refused_most_is_first_whoever_else_comes() {
    let top = TopClients::new(&Metrics::new(1));
    let mut true_counts = BTreeMap::<PartitionId, u64>::new();
    for round in 0..20_000_u64 {
        // One request in ten is from one of three clients; all others ask once or twice.
        let number = if round % 10 == 0 {
            round / 10 % 3
        } else {
            1_000 + round % 15_000
        };
        let refused = SeenRequest {
            is_refused: true,
            spent: number % 7,
            ..request(number, START)
        };
        let index = usize::from(number >= 1_000 && round % 2 == 0);
        top.note(worker(index), &refused, shown);
        *true_counts.entry(refused.client).or_default() += 1;
    }
    let (counted, since) = top.counted(CountedEvents::Refused, START);
    assert_eq!(since, START);
    for one in &counted {
        let true_count = true_counts[&one.client];
        assert!(
            (one.at_least..=one.at_most).contains(&true_count),
            "{one:?}: {true_count}"
        );
    }
    let mut first: Vec<_> = counted[..3].iter().map(|one| one.client).collect();
    first.sort_unstable();
    let mut expected = [0, 1, 2].map(client);
    expected.sort_unstable();
    assert_eq!(first, expected);
    assert!(counted[..3].iter().all(|one| one.at_least > 600));
    assert!(
        counted[..3]
            .iter()
            .all(|one| one.name.as_deref() == Some("shown"))
    );
    // As many as there are slots, however many clients there were.
    assert!(counted.len() <= 2 * 128, "{}", counted.len());
}

#[test]
fn what_was_counted_is_shown_for_five_to_ten_minutes_and_what_comes_back_is_not() {
    let top = TopClients::new(&Metrics::new(1));
    let minutes = |count: u64| START + Micros::from_secs(60 * count);
    let spend = |number, units, at| {
        let spent = SeenRequest {
            spent: units,
            ..request(number, at)
        };
        top.note(worker(0), &spent, shown);
    };
    let sums = |at| -> Vec<u64> {
        let (counted, _) = top.counted(CountedEvents::Spent, at);
        counted.iter().map(|one| one.at_least).collect()
    };
    spend(1, 10, minutes(0));
    top.correct(worker(0), client(1), Adjustment::GiveBack(7));
    top.correct(worker(0), client(2), Adjustment::GiveBack(7));
    spend(2, 5, minutes(4));
    assert_eq!(sums(minutes(4)), [5, 3]);
    spend(1, 7, minutes(5));
    assert_eq!(sums(minutes(9)), [10, 5]);
    assert_eq!(sums(minutes(10)), [7]);
    assert_eq!(sums(minutes(15)), [0; 0]);
    assert_eq!(top.counted(CountedEvents::Refused, minutes(5)).0, []);
}

#[test]
fn who_is_nearest_to_a_quota_is_first_until_it_is_whole() {
    let top = TopClients::new(&Metrics::new(1));
    let quota = Quota::of(Algorithm::FixedWindow, 100, Micros::from_secs(60));
    let note = |index, number, remaining, at| {
        let decision = Decision {
            admit: true,
            remaining,
            debt: 0,
            next: None,
            reset: Micros::from_secs(30),
            retry: Retry::NOW,
            wait: Micros(0),
        };
        let near = SeenRequest {
            tightest: Some((&quota, &decision)),
            ..request(number, at)
        };
        top.note(worker(index), &near, shown);
    };
    let nearest = |at| -> Vec<(PartitionId, u64)> {
        let near = top.nearest(at);
        near.iter().map(|one| (one.client, one.remaining)).collect()
    };
    let later = START + Micros::from_secs(10);
    // Those that have used less than half are of no interest, however many there are.
    for number in 10..5_000 {
        note(0, number, 60, START);
    }
    note(0, 1, 20, START);
    note(0, 2, 50, START);
    note(1, 1, 10, later);
    note(1, 3, 0, START);
    assert_eq!(
        nearest(later),
        [(client(3), 0), (client(1), 10), (client(2), 50)]
    );
    // Units came back.
    note(1, 3, 70, later);
    assert_eq!(
        nearest(later),
        [(client(1), 10), (client(2), 50), (client(3), 70)]
    );
    assert_eq!(
        nearest(START + Micros::from_secs(30)),
        [(client(1), 10), (client(3), 70)]
    );
    assert_eq!(nearest(later + Micros::from_secs(30)), []);
}

#[test]
fn what_comes_back_of_others_makes_no_count_seem_exact_that_was_lost() {
    let top = TopClients::new(&Metrics::new(1));
    // These ids all belong to one set.
    let of_set = |number: u64| PartitionId::new(number.into());
    let spend = |number, units| {
        let spent = SeenRequest {
            client: of_set(number),
            spent: units,
            ..request(0, START)
        };
        top.note(worker(0), &spent, shown);
    };
    for number in 1..=8 {
        spend(number, 1_000);
    }
    // It takes the slot of one of them, which then gets the slot of another whose units have all come back.
    spend(9, 1);
    let (counted, _) = top.counted(CountedEvents::Spent, START);
    let lost = (1..=8).find(|number| counted.iter().all(|one| one.client != of_set(*number)));
    let lost = lost.expect("one has lost its place");
    let other = lost % 8 + 1;
    top.correct(worker(0), of_set(other), Adjustment::GiveBack(1_000));
    spend(lost, 1);
    let (counted, _) = top.counted(CountedEvents::Spent, START);
    let again = counted.iter().find(|one| one.client == of_set(lost));
    let again = again.expect("it is back");
    assert_eq!((again.at_least, again.at_most), (1, 1_001));
    // Units come back that it spent before it lost its slot: it may have spent that many fewer.
    top.correct(worker(0), of_set(lost), Adjustment::GiveBack(600));
    let (counted, _) = top.counted(CountedEvents::Spent, START);
    let again = counted.iter().find(|one| one.client == of_set(lost));
    assert_eq!(again, None, "none of what is left is certain");
    // What is reported late is counted, wherever the client is by then.
    top.correct(worker(0), of_set(10), Adjustment::Spend(5_000));
    let (counted, _) = top.counted(CountedEvents::Spent, START);
    assert_eq!(
        (counted[0].client, counted[0].at_least),
        (of_set(10), 5_000)
    );
}
