//! What the scripts leave in the server: keys that expire, within their bytes, and nothing where
//! nothing changed.

use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::partition_id::PartitionHasher;
use tollgate::limit::plan::CheckMode;
use tollgate::limit::{Algorithm, Count, OldestBucket, Quota};
use tollgate::store::redis::wire::{self, Script};

use crate::in_memory::{algorithms, quota_of};
use crate::scripted::Scripted;
use crate::support::redis::{Server, Value};
use crate::traffic::START;

fn single(quota: Quota) -> Scripted {
    Scripted::new(vec![(quota, CheckMode::Enforce)])
}

fn lifetime_ms(scripted: &mut Scripted) -> i64 {
    let key = scripted.key(0);
    scripted.command(&[b"PTTL".as_slice(), &key]).integer()
}

fn bytes_used(scripted: &mut Scripted) -> i64 {
    let key = scripted.key(0);
    let words = [b"MEMORY".as_slice(), b"USAGE", &key, b"SAMPLES", b"0"];
    scripted.command(&words).integer()
}

#[test]
fn refused_plan_writes_nothing() {
    let server = Server::start();
    for algorithm in algorithms() {
        let quotas = vec![
            (quota_of(algorithm, 2), CheckMode::Enforce),
            (quota_of(algorithm, 100), CheckMode::Shadow),
        ];
        let mut scripted = Scripted::on(&server, quotas);
        let changes = || server.figure("persistence", "rdb_changes_since_last_save");
        for _ in 0..2 {
            assert!(scripted.decide(START, 1).admit);
        }
        let before = changes();
        assert!(!scripted.decide(START + Micros(1), 1).admit);
        assert!(!scripted.decide(START + Micros(2), 3).admit);
        scripted.peek(START + Micros(3), 1);
        assert_eq!(changes(), before, "{algorithm:?}");
        assert!(scripted.decide(START + Micros(4), 0).admit);
        assert_eq!(changes(), before, "{algorithm:?}: a cost of nothing");
    }
}

#[test]
fn every_key_expires_when_its_state_stops_mattering() {
    // With one bucket, what was spent in a window ages out only during the whole next one.
    let classic = Algorithm::SlidingWindow {
        buckets: 1,
        oldest: OldestBucket::Weighted,
    };
    let others = algorithms().map(|algorithm| (algorithm, 6_000));
    for (algorithm, bucket_ms) in others.into_iter().chain([(classic, 60_000)]) {
        for step in 0..10 {
            let mut scripted = single(quota_of(algorithm, 10));
            let now = START + Micros(step * 7_000_000);
            scripted.decide(now, 5);
            let left_ms = i64::try_from(scripted.peek(now, 0)[0].reset.0 / 1000).expect("small");
            let alive_ms = lifetime_ms(&mut scripted);
            // Keys live up to a bucket and a second longer. The test's clock stands still, the server's has gone on.
            let is_fit = (left_ms + 1..=left_ms + bucket_ms + 1_001).contains(&alive_ms);
            assert!(is_fit, "{algorithm:?}: {alive_ms} ms for {left_ms} ms");
            scripted.reset(now);
            assert_eq!(
                lifetime_ms(&mut scripted),
                -2,
                "{algorithm:?}: a reset leaves no key"
            );
        }
    }
}

#[test]
fn windows_below_a_second_are_kept_and_expire() {
    for algorithm in algorithms() {
        let quota = Quota {
            window: Micros(20_000),
            ..quota_of(algorithm, 10)
        };
        let mut scripted = single(quota);
        assert!(scripted.decide(START, 10).admit);
        assert!(!scripted.decide(START, 1).admit);
        let alive_ms = lifetime_ms(&mut scripted);
        assert!(
            (1..=1_100).contains(&alive_ms),
            "{algorithm:?}: {alive_ms} ms"
        );
    }
}

#[test]
fn later_requests_do_not_prolong_a_window() {
    let mut scripted = single(quota_of(Algorithm::FixedWindow, 100));
    scripted.decide(START, 1);
    let first_ms = lifetime_ms(&mut scripted);
    scripted.decide(START + Micros(1_000_000), 1);
    assert!(lifetime_ms(&mut scripted) <= first_ms);
}

#[test]
fn key_without_expiry_heals() {
    for algorithm in algorithms() {
        let mut scripted = single(quota_of(algorithm, 10));
        scripted.decide(START, 1);
        let key = scripted.key(0);
        assert_eq!(
            scripted.command(&[b"PERSIST".as_slice(), &key]),
            Value::Integer(1)
        );
        // A refusal in the same bucket, then the first request of the next.
        scripted.decide(START, 100);
        assert!(
            scripted.decide(START + Micros(60_000_000), 1).admit,
            "{algorithm:?}"
        );
        assert!(lifetime_ms(&mut scripted) > 0, "{algorithm:?}");
    }
}

#[test]
fn log_takes_at_most_fifteen_bytes_for_an_entry() {
    let mut scripted = single(quota_of(Algorithm::SlidingLog, 2000));
    let mut figures = Vec::new();
    for asked in 1..=2000_u64 {
        assert!(scripted.decide(START + Micros(asked * 1_001), 1).admit);
        if [1, 10, 100, 1000, 2000].contains(&asked) {
            let bytes = bytes_used(&mut scripted);
            figures.push((asked, bytes));
            if asked >= 1000 {
                assert!(
                    bytes <= 15 * i64::try_from(asked).expect("small"),
                    "{figures:?}"
                );
            }
        }
    }
    println!("sliding-log, (entries, bytes with the key): {figures:?}");
}

#[test]
fn partition_takes_few_bytes() {
    let sliding = |buckets| Algorithm::SlidingWindow {
        buckets,
        oldest: OldestBucket::Weighted,
    };
    let kinds = [
        ("fixed-window", Algorithm::FixedWindow, 160),
        ("sliding-window, 1 bucket", sliding(1), 160),
        ("sliding-window, 10 buckets", sliding(10), 208),
        ("sliding-window, 100 buckets", sliding(100), 768),
        ("gcra", Algorithm::Gcra { burst: 1 }, 144),
    ];
    for (name, algorithm, most) in kinds {
        let mut scripted = single(quota_of(algorithm, 1_000_000));
        for step in 0..200_u64 {
            scripted.decide(START + Micros(step * 600_000), 1);
        }
        let (key, bytes) = (scripted.key(0).len(), bytes_used(&mut scripted));
        println!("{name}: {bytes} bytes, {key} of them the key");
        assert!(bytes <= most, "{name}: {bytes}");
    }
}

#[test]
fn aged_entries_are_read_once_whoever_is_refused() {
    let server = Server::start();
    let quota = quota_of(Algorithm::SlidingLog, 1000);
    let mut scripted = Scripted::on(&server, vec![(quota, CheckMode::Enforce)]);
    for step in 0..1000 {
        scripted.decide(START + Micros(step), 1);
    }
    // The older half has aged out. The first request drops it; a cost of more than the rest is refused again and again.
    let later = START + Micros(60_000_000 + 499);
    scripted.decide(later, 1000);
    let before = commands(&server);
    for _ in 0..10 {
        assert!(!scripted.decide(later, 501).admit);
    }
    assert_eq!(commands(&server) - before, 10, "the head alone");
}

/// Counts the commands on logs that a server has executed.
fn commands(server: &Server) -> u64 {
    let all = ["lindex", "lrange", "ltrim", "lset", "lrem", "rpush", "del"];
    all.map(|command| server.calls(command)).iter().sum()
}

/// A call on a log at a given time.
type Step = fn(&mut Scripted, Timestamp);

/// A call on a log touches only a few blocks, however many there are.
#[test]
fn no_call_on_a_long_log_touches_more_than_a_few_of_its_blocks() {
    const ENTRIES: u64 = 20_000;
    let server = Server::start();
    let quota = quota_of(Algorithm::SlidingLog, 2 * ENTRIES);
    let mut scripted = Scripted::on(&server, vec![(quota, CheckMode::Enforce)]);
    // Entries of one and two units in turns, so that their number says nothing about their sum.
    for entry in 0..ENTRIES {
        scripted.decide(START + Micros(entry * 1_000), 1 + entry % 2);
    }
    let key = scripted.key(0);
    let elements = scripted.command(&[b"LRANGE".as_slice(), &key, b"0", b"-1"]);
    let lengths: Vec<usize> = (elements.list().iter())
        .map(|element| match element {
            Value::Bytes(bytes) => bytes.len(),
            other => panic!("no block: {other:?}"),
        })
        .collect();
    assert!(lengths.len() > 34 && lengths.iter().all(|length| *length <= 8_176));
    let steps: [(&str, Step); 8] = [
        ("one more", |log, at| drop(log.decide(at, 1))),
        ("all is refused", |log, at| {
            assert!(!log.decide(at, 40_000).admit);
        }),
        ("back from the middle", |log, at| {
            log.release(at, 10_000, 2);
        }),
        ("a part of that of the first block", |log, at| {
            log.release(at, 5, 1);
        }),
        ("half has aged", |log, at| {
            drop(log.decide(at + Micros(50_000_000), 1));
        }),
        ("the clock steps back", |log, at| {
            drop(log.decide(at - Micros(20_000_000), 1));
        }),
        // The clock has stepped back by more than a window, so all entries have become one of the current time.
        ("a look after that", |log, at| {
            let peek = log.peek(at - Micros(20_000_000), 40_000)[0];
            assert_eq!((peek.remaining, peek.admit), (24_998, false));
            assert_eq!(peek.next, Some(Micros(60_000_000)));
        }),
        ("all has aged at once", |log, at| {
            assert!(log.decide(at + Micros(40_000_000), 40_000).admit);
        }),
    ];
    let at = START + Micros(ENTRIES * 1_000);
    for (name, step) in steps {
        let before = commands(&server);
        step(&mut scripted, at);
        let commands = commands(&server) - before;
        // At most this many elements of 8,176 bytes.
        assert!(commands <= 10, "{name}: {commands}");
    }
}

#[test]
fn only_a_fixed_set_of_scripts_is_ever_sent_and_cached() {
    let server = Server::start();
    let mut monitor = server.connect().expect("the server runs");
    assert_eq!(monitor.ask(&["MONITOR"]).expect("an answer").text(), "OK");
    for algorithm in algorithms() {
        let mut quota = quota_of(algorithm, 3);
        if algorithm == Algorithm::SlidingLog {
            quota.count = Count::All;
        }
        let mut scripted = Scripted::on(&server, vec![(quota, CheckMode::Enforce)]);
        for value in hostile() {
            let mut tagger = PartitionHasher::new(&[7; 32]);
            tagger.part("key", &value);
            scripted.partition_id = tagger.finish();
            assert!(scripted.decide(START, 1).admit, "a partition of its own");
            scripted.spend(START, 2);
            scripted.release(START, scripted.charges.len() - 1, 1);
        }
    }
    let announced = wire::announce(&wire::KeyNames::new("test"), "node", Micros(15_000_000));
    let mut any = Scripted::on(&server, Vec::new());
    assert_eq!(any.call(&announced).integer(), 1);

    let scripts = server.figure("memory", "number_of_cached_scripts");
    assert_eq!(usize::try_from(scripts), Ok(Script::ALL.len()));
    let shas = Script::ALL.map(Script::sha);
    loop {
        let line = monitor.read().expect("a line").text();
        if line.contains("\"INFO\"") {
            break;
        }
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let is_inside_a_script = words.get(1).is_some_and(|word| word.starts_with("lua"));
        let is_set_up = ["\"ACL\"", "\"AUTH\"", "\"SCRIPT\""].contains(&words[2]);
        let is_call = words[2] == "\"EVALSHA\"" && shas.iter().any(|sha| words[3].contains(sha));
        assert!(is_inside_a_script || is_set_up || is_call, "{line}");
    }
    for key in server.command(&["KEYS", "*"]).list() {
        let key = key.text();
        let (prefix, rest) = key.split_once('{').expect("a partition id");
        let (partition_id, series) = rest.split_once('}').expect("a partition id");
        let is_digest = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert_eq!(prefix, "test:");
        if partition_id != "nodes" {
            assert!(
                partition_id.len() == 22 && partition_id.chars().all(is_digest),
                "{key}"
            );
            assert!(series.ends_with(":60000000:policy-0"), "{key}");
        }
        assert!(server.command(&["PTTL", &key]).integer() > 0, "{key}");
    }
}

/// Values by which clients may be named.
fn hostile() -> Vec<Vec<u8>> {
    vec![
        b"a:b".to_vec(),
        b"a".to_vec(),
        b"{x}".to_vec(),
        b"}{".to_vec(),
        b"\r\n*1\r\n$8\r\nFLUSHALL\r\n".to_vec(),
        b"*".to_vec(),
        b"?[".to_vec(),
        Vec::new(),
        vec![0; 3],
        vec![b'x'; 1 << 20],
    ]
}
