//! What this gateway holds, and when it is announced.

use super::*;
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

fn key(bits: u128) -> QuotaKey {
    QuotaKey {
        series_id: SeriesId(0),
        partition_id: PartitionId::new(bits),
    }
}

fn holdings() -> Holdings {
    Holdings::new(GatewayId::new(7))
}

fn is_empty(holdings: &Holdings) -> bool {
    (holdings.shards.all()).all(|shard| shard.is_empty())
}

/// Announces a client's number, which Redis accepts.
fn announce(holdings: &Holdings, key: QuotaKey, now: Timestamp) -> Option<u64> {
    let (units, _) = holdings.announce(key, now)?;
    let reply = AnnouncementReply {
        is_outdated: false,
        held: None,
    };
    holdings.note(key, reply, now);
    holdings.announced(key);
    Some(units)
}

#[test]
fn what_is_announced_has_what_is_asked_for_in_it_and_nothing_is_kept_of_what_has_ended() {
    let holdings = holdings();
    let first = holdings.ask(key(1), 2, 9, NOW);
    let other = holdings.ask(key(2), 5, 9, NOW);
    assert!(other > first, "one counter for all clients");
    assert_eq!(announce(&holdings, key(1), NOW), Some(2));
    let answered = |of, units, sequence, answer| {
        holdings.answered((key(of), units, sequence), answer, None, NOW)
    };
    assert!(
        answered(1, 2, first, UnitsAnswer::Refused),
        "it was announced"
    );
    assert_eq!(announce(&holdings, key(1), NOW), Some(0));
    let again = holdings.ask(key(1), 2, 9, NOW);
    assert!(again > other);
    assert!(
        !answered(1, 2, again, UnitsAnswer::Refused),
        "nobody knows of it"
    );
    assert!(!answered(2, 5, other, UnitsAnswer::Granted));
    holdings.end(key(2), 5, NOW);
    assert!(!is_empty(&holdings));
    assert_eq!(announce(&holdings, key(2), NOW), Some(0));
    assert!(is_empty(&holdings));
    // Redis may count lost units as held, and may not count kept ones.
    for (answer, units) in [(UnitsAnswer::Lost, 0), (UnitsAnswer::Kept, 3)] {
        let sequence = holdings.ask(key(3), 3, 9, NOW);
        assert!(answered(3, 3, sequence, answer));
        assert_eq!(announce(&holdings, key(3), NOW), Some(units));
    }
}

#[tokio::test]
async fn while_few_units_are_free_asks_and_announcements_wait_for_each_other() {
    let holdings = holdings();
    let grant = |free| {
        let sequence = holdings.ask(key(1), 1, 9, NOW);
        let asked = (key(1), 1, sequence);
        holdings.answered(asked, UnitsAnswer::Granted, Some(free), NOW);
    };
    let waits = |units| holdings.before_asking(key(1), units).is_some();
    grant(2);
    assert!(!waits(9), "nothing is to be announced");
    holdings.end(key(1), 1, NOW);
    assert!(!waits(2) && !waits(0), "as many are free");
    let waiting = holdings.before_asking(key(1), 3).expect("fewer are free");
    let reply = |is_outdated| AnnouncementReply {
        is_outdated,
        held: Some(4),
    };
    for is_outdated in [true, false] {
        assert!(holdings.announce(key(1), NOW).is_some());
        assert!(waits(6), "it is under way");
        holdings.note(key(1), reply(is_outdated), NOW);
        assert!(waits(6) && !waits(5), "others hold 4 of 9");
        holdings.announced(key(1));
        assert_eq!(waits(6), is_outdated);
    }
    waiting.await;

    grant(0);
    let sequence = holdings.ask(key(1), 1, 9, NOW);
    holdings.end(key(1), 1, NOW);
    assert_eq!(holdings.announce(key(1), NOW), None, "it may be refused");
    assert!(waits(1));
    assert!(
        holdings.announce(key(1), NOW + RENEWED_AFTER).is_some(),
        "its lease would end"
    );
    holdings.announced(key(1));
    holdings.end(key(1), 0, NOW);
    let asked = (key(1), 1, sequence);
    assert!(
        holdings.answered(asked, UnitsAnswer::Refused, Some(0), NOW),
        "the last announces it"
    );
    assert_eq!(announce(&holdings, key(1), NOW), Some(0));
    assert!(!waits(1) && is_empty(&holdings));
}

#[test]
fn what_is_old_or_was_missed_is_found_once_a_second_until_redis_forgets_it() {
    let holdings = holdings();
    let sequence = holdings.ask(key(1), 1, 9, NOW);
    holdings.answered((key(1), 1, sequence), UnitsAnswer::Granted, None, NOW);
    holdings.end(key(2), 1, NOW);
    let overdue = |ms: u64| {
        let mut found = holdings.overdue(NOW + Micros(ms * 1_000));
        found.sort_unstable_by_key(|key| key.partition_id);
        found
    };
    assert_eq!(overdue(0), [], "one is fresh, the other one in a queue");
    holdings.missed(key(2), NOW);
    assert_eq!(overdue(999), [], "too soon");
    assert_eq!(overdue(1_000), [key(2)]);
    assert_eq!(overdue(4_000), [key(1), key(2)]);
    announce(&holdings, key(1), NOW + Micros::from_secs(4));
    assert_eq!(overdue(7_999), [key(2)]);
    assert_eq!(overdue(15_000), [key(1), key(2)]);
    assert_eq!(overdue(16_000), [key(1)]);
    announce(&holdings, key(1), NOW + Micros::from_secs(16));
    assert_eq!(overdue(17_000), []);
}
