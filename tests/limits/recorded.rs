//! Values that earlier versions wrote into Redis are read by this one: the same keys, and decisions to the microsecond.
//!
//! `RECORD=write cargo test --test limits recorded` writes the values of this version. Those of a released version
//! never change: a version that cannot read them would hand every client a fresh quota.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tollgate::clock::{Micros, Timestamp};
use tollgate::limit::plan::CheckMode;
use tollgate::limit::{
    Adjustment, Algorithm, Align, CalendarUnit, Count, OldestBucket, PartitionId, Quota,
};

use crate::in_memory::quota_of;
use crate::ledger::{Rows, calendar};
use crate::scripted::Scripted;
use crate::spec::{Pure, Subject};
use crate::support::redis::Value;
use crate::traffic::window_of;

/// The values that one version has written.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Recorded {
    values: Vec<RecordedValue>,
}

/// What Redis held for one quota.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct RecordedValue {
    quota: String,
    /// The key in hexadecimal; `dump` has the bytes of `DUMP` in the same form.
    key: String,
    dump: String,
}

#[test]
fn values_that_earlier_versions_wrote_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits/recorded");
    let current = folder.join(concat!(env!("CARGO_PKG_VERSION"), ".toml"));
    if std::env::var("RECORD").is_ok_and(|how| how == "write") {
        let values = cases().into_iter().map(|(name, rows)| record(name, rows));
        let values = values.collect();
        let text = toml::to_string(&Recorded { values }).expect("text");
        fs::write(&current, text).expect("the folder is writable");
    }
    let entries = fs::read_dir(&folder).expect("a folder");
    let files: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    assert!(files.contains(&current), "the values of this version");
    for file in files {
        let text = fs::read_to_string(&file).expect("readable");
        let recorded: Recorded = toml::from_str(&text).expect("values");
        assert!(!recorded.values.is_empty());
        if file == current {
            let names = recorded.values.iter().map(|value| &*value.quota);
            assert!(names.eq(cases().iter().map(|(name, _)| *name)));
        }
        for value in recorded.values {
            let case = cases().into_iter().find(|(name, _)| *name == value.quota);
            let (name, rows) = case.unwrap_or_else(|| panic!("no quota {}", value.quota));
            reads(&format!("{}, {name}", file.display()), rows.clone(), &value);
            if file == current {
                writes(name, rows, &value);
            }
        }
    }
}

/// Quotas of every algorithm, and of every form that their states may have.
fn cases() -> Vec<(&'static str, Rows)> {
    let dropped = OldestBucket::Dropped;
    let whole = OldestBucket::Whole;
    let windows = |buckets, oldest| Algorithm::SlidingWindow { buckets, oldest };
    let month = calendar(CalendarUnit::Month, "Europe/Berlin", 15, 390);
    let algorithms = [
        ("fixed-window", Algorithm::FixedWindow),
        ("sliding-window", windows(10, whole)),
        ("sliding-window, dropped", windows(60, dropped)),
        ("sliding-log", Algorithm::SlidingLog),
        ("gcra", Algorithm::Gcra { burst: 1 }),
        ("leaky-bucket", Algorithm::LeakyBucket { queue: 1 }),
        // The cases since 0.2.0.
        ("sliding-window, 360 buckets", windows(360, whole)),
        ("calendar", Algorithm::Calendar(month)),
        ("fixed-window, first", Algorithm::FixedWindow),
        ("credits", Algorithm::Credits { initial: 100 }),
    ];
    let mut cases = Vec::new();
    for (name, algorithm) in algorithms {
        let quota = Quota {
            window: window_of(algorithm, 60_000_000),
            align: if name.ends_with("first") {
                Align::First
            } else {
                Align::Epoch
            },
            ..quota_of(algorithm, 100)
        };
        let rows = |quota: Quota, mode| Rows::from(vec![(quota, mode)]);
        cases.push((name, rows(quota, CheckMode::Enforce)));
        if name == "gcra" {
            let can_come_back = false;
            let compact = Quota {
                can_come_back,
                ..quota
            };
            cases.push((
                "gcra, nothing comes back",
                rows(compact, CheckMode::Enforce),
            ));
            let count = Count::All;
            cases.push((
                "gcra, counts all",
                rows(Quota { count, ..quota }, CheckMode::Enforce),
            ));
            cases.push(("gcra, candidate", rows(quota, CheckMode::Candidate)));
        }
    }
    cases
}

/// The partition of all recorded values.
const PARTITION: PartitionId = PartitionId::new(0x0123_4567_89ab_cdef_0000_0000_0000_0007);

const START: Timestamp = Timestamp(1_800_000_000_000_000);

/// Takes a quota through what happens before its value is recorded.
fn history(subject: &mut impl Subject) {
    for step in 0..40 {
        subject.decide(at(step), &[0], 1 + step % 4);
        if step % 5 == 4 {
            let decision = usize::try_from(step - 2).expect("few");
            subject.settle(at(step) + Micros(7), decision, &[0], &|_| {
                Adjustment::GiveBack(1)
            });
        }
    }
}

fn at(step: u64) -> Timestamp {
    START + Micros(step * 1_700_003)
}

fn scripted(rows: Rows) -> Scripted {
    let mut scripted = Scripted::new(rows);
    scripted.partition_id = PARTITION;
    let key = scripted.key(0);
    scripted.command(&[&b"DEL"[..], &key]);
    scripted
}

fn record(name: &str, rows: Rows) -> RecordedValue {
    let mut scripted = scripted(rows);
    history(&mut scripted);
    RecordedValue {
        quota: name.to_owned(),
        key: to_hex(&scripted.key(0)),
        dump: to_hex(&dump(&mut scripted)),
    }
}

fn dump(scripted: &mut Scripted) -> Vec<u8> {
    let key = scripted.key(0);
    match scripted.command(&[&b"DUMP"[..], &key]) {
        Value::Bytes(dump) => dump,
        nothing => panic!("nothing is stored under {key:?}: {nothing:?}"),
    }
}

/// Compares what this version writes with what was recorded for it, both as this server dumps them.
fn writes(name: &str, rows: Rows, value: &RecordedValue) {
    let mut scripted = scripted(rows);
    restore(&mut scripted, value);
    let recorded = dump(&mut scripted);
    let written = record(name, scripted.rows);
    assert_eq!(written.dump, to_hex(&recorded), "{name}");
}

fn restore(scripted: &mut Scripted, value: &RecordedValue) {
    let key = scripted.key(0);
    scripted.command(&[&b"RESTORE"[..], &key, b"0", &from_hex(&value.dump)]);
}

/// Restores a value, and compares the decisions from then on with those of the pure functions.
fn reads(what: &str, rows: Rows, value: &RecordedValue) {
    let mut pure = Pure::new(rows.clone());
    history(&mut pure);
    let mut scripted = scripted(rows);
    assert_eq!(to_hex(&scripted.key(0)), value.key, "{what}: the key");
    restore(&mut scripted, value);
    for step in 40..80 {
        let decided = scripted.decide(at(step), 1);
        let expected = pure.decide(at(step), &[0], 1);
        assert_eq!(decided, expected, "{what}: step {step}");
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}
