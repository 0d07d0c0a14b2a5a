//! What overrides cost: to load and keep a file of them, to look one up, and per request.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::net::IpAddr;
use std::path::Path;

use http::{HeaderMap, HeaderValue, Method};
use tollgate::config::{Loaded, load};
use tollgate::limit::PartitionId;
use tollgate::limit::plan::SeriesId;
use tollgate::request::route::Lookup;
use tollgate::request::{ClientPrefixes, Facts};

use super::files::{ADMIN, PUBLIC};
use super::support::{median, resident_bytes, run_again, settle};
use super::timed;
use super::traffic::Gateway;

/// The patterns and the quotas of the rows.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Keys that share twenty quotas.
    Keys,
    /// Keys, each with its own quota.
    Quotas,
    /// Globs, none of which lies within another.
    Globs,
    /// Globs, each of which lies within the one before.
    Nested,
    /// Networks, in three levels.
    Networks,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Keys,
        Self::Quotas,
        Self::Globs,
        Self::Nested,
        Self::Networks,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Quotas => "own quotas",
            Self::Globs => "globs",
            Self::Nested => "nested globs",
            Self::Networks => "networks",
        }
    }

    pub fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.expect("the name of a kind")
    }

    fn rows(self, rows: usize) -> String {
        let mut text = String::new();
        for at in 0..rows {
            let quota = 1_000_000
                + if matches!(self, Self::Quotas) {
                    at
                } else {
                    at % 20
                };
            let pattern = match self {
                Self::Keys | Self::Quotas => key(at),
                Self::Globs => format!("{}*", key(at)),
                Self::Nested => format!("{}*", "a".repeat(at)),
                Self::Networks => {
                    let [_, b, c, d] = u32::try_from(at / 3).expect("few").to_be_bytes();
                    let host = if at % 3 == 0 { 0 } else { 128 };
                    format!("{b}.{c}.{d}.{host}/{}", 24 + at % 3)
                }
            };
            let _ = writeln!(text, "{pattern},{quota} per minute");
        }
        text
    }
}

/// Returns a key like those of customers.
fn key(at: usize) -> String {
    format!(
        "live_{:016x}{at:08x}",
        (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    )
}

fn file(kind: Kind, csv: Option<&Path>) -> String {
    let part = if matches!(kind, Kind::Networks) {
        "ip"
    } else {
        "header:x-api-key"
    };
    let overrides = csv.map_or(String::new(), |csv| {
        format!("overrides_file = '{}'\n", csv.display())
    });
    format!(
        "[listeners.public]\naddress = '{PUBLIC}'\n[admin]\naddress = '{ADMIN}'\n[log]\naccess = 'off'\n\
         [upstreams.api]\nendpoints = 'builtin:status/204'\n\
         [policies.a]\nquota = '1000000 per minute'\npartition = ['{part}']\n{overrides}\
         [[routes]]\npath = '/*'\nupstream = 'api'\npolicies = ['a']\n"
    )
}

fn loaded(text: &str) -> Loaded {
    load(text, &|_| None, &mut |_| SeriesId(0))
        .unwrap_or_else(|report| panic!("{}", report.render("bench", text, false)))
}

pub fn all() {
    println!(
        "\na file of overrides: CPU time in ms, memory, and ns per lookup of one that is there, and that is not"
    );
    println!(
        "{:>14} {:>8} {:>10} {:>8} {:>8} {:>10} {:>8} {:>8}",
        "", "rows", "file", "load", "reload", "kept", "there", "not"
    );
    for kind in Kind::ALL {
        for rows in [100, 10_000, 100_000] {
            if matches!(kind, Kind::Nested) && rows > 10_000 {
                continue;
            }
            run_again(&["overrides-of-one", &rows.to_string(), kind.name()]);
        }
    }
    traffic();
}

/// Prints one line of the table.
pub fn one(rows: usize, kind: Kind) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let csv = folder.path().join("overrides.csv");
    fs::write(&csv, "warm-up,unlimited\n").expect("a writable folder");
    drop(loaded(&file(Kind::Keys, Some(&csv))));
    let content = kind.rows(rows);
    fs::write(&csv, &content).expect("a writable folder");
    let text = file(kind, Some(&csv));
    settle();
    let before = resident_bytes();
    let (load_ms, first) = timed(|| loaded(&text));
    settle();
    let kept = resident_bytes().saturating_sub(before);
    let (reload_ms, second) = timed(|| loaded(&text));
    drop(first);
    let (there, not) = match kind {
        Kind::Networks => ("0.0.7.129".to_owned(), "99.0.0.1".to_owned()),
        Kind::Nested => ("a".repeat(rows / 2) + "b", "b".to_owned()),
        _ => (key(rows / 2), "test_".to_owned() + &key(rows / 2)),
    };
    let [there, not] = [there, not].map(|value| per_lookup(&second, &value));
    println!(
        "{:>14} {rows:>8} {:>7} kB {load_ms:>8.1} {reload_ms:>8.1} {:>7} kB {there:>8.0} {not:>8.0}",
        kind.name(),
        content.len() / 1_000,
        kept / 1_000,
    );
}

/// Returns the ns of a lookup of the override for a client with this address or key.
fn per_lookup(loaded: &Loaded, value: &str) -> f64 {
    let (snapshot, mut headers) = (&loaded.snapshot, HeaderMap::new());
    headers.insert(
        "x-api-key",
        HeaderValue::from_str(value).expect("a good value"),
    );
    let Lookup::Found(found) = snapshot.router.find("a", &Method::GET, "/", &headers) else {
        panic!("the file has a route for everything");
    };
    let facts = Facts {
        client: value.parse().ok().or(Some(IpAddr::from([203, 0, 113, 9]))),
        prefixes: ClientPrefixes::default(),
        headers: &headers,
        host: "a",
        method: &Method::GET,
        route_name: "/*",
        path: "/",
        query: None,
        claims: None,
        client_cert: None,
        found: &found,
        router: &snapshot.router,
    };
    let policy = &snapshot.policies.raw[0];
    let mut times = 100;
    loop {
        let (ms, ()) = timed(|| {
            for _ in 0..times {
                black_box(policy.find_override(black_box(&facts), PartitionId::new(0)));
            }
        });
        if ms > 50.0 {
            return ms * 1e6 / f64::from(times);
        }
        times *= 4;
    }
}

/// Measures requests of a policy with 100,000 overrides, and of one without any.
fn traffic() {
    println!(
        "\nCPU time per request in µs, without and with 100,000 overrides, {ROUNDS} rounds, median"
    );
    println!("{:>34} {:>9} {:>9} {:>9}", "", "without", "with", "ratio");
    let folder = tempfile::tempdir().expect("a folder for the file");
    let csv = folder.path().join("overrides.csv");
    fs::write(&csv, Kind::Keys.rows(100_000)).expect("a writable folder");
    let without = Gateway::of(&file(Kind::Keys, None), 19_120);
    let with = Gateway::of(&file(Kind::Keys, Some(&csv)), 19_122);
    let request = |key: String| {
        format!("GET / HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\naccept: */*\r\n\r\n")
    };
    for (name, keys, prefix) in [
        ("one key without an override", 1, "test_"),
        ("one key with an override", 1, ""),
        ("10,000 keys without an override", 10_000, "test_"),
        ("10,000 keys with an override", 10_000, ""),
    ] {
        let keys = (0..keys).map(|at| prefix.to_owned() + &key(at * 10));
        let requests: Vec<String> = keys.map(request).collect();
        let mut costs: [Vec<f64>; 2] = Default::default();
        for _ in 0..ROUNDS {
            costs[0].push(without.cost_us(&requests));
            costs[1].push(with.cost_us(&requests));
        }
        let ratio = median(
            costs[1]
                .iter()
                .zip(&costs[0])
                .map(|(with, without)| with / without)
                .collect(),
        );
        let [without, with] = costs.map(median);
        println!("{name:>34} {without:>9.2} {with:>9.2} {ratio:>9.3}");
    }
}

const ROUNDS: usize = 7;
