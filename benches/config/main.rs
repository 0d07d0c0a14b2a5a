//! What a large file costs: to load, to reload, to keep, and per request.
//!
//! Files have 10 to 10,000 routes and a tenth as many policies (`files`). Loading is measured as CPU time of a thread,
//! and what is kept as resident memory, each size in a process of its own. Lookups are measured alone (`lookups`), and
//! as CPU time per request of two gateways that differ only in their files, under the same load in the same run; then
//! one of them is reloaded while a client waits for each answer (`traffic`).
//!
//! Overrides are measured in the same way (`overrides`): a file of up to 100,000 rows is loaded and kept, and looked up
//! alone; and requests of a policy with overrides are compared with those of one without.
//!
//! `cargo bench --bench config`; for one part, add `load`, `mistakes`, `lookups`, `traffic` or
//! `overrides` after `--`.

#![allow(
    clippy::cast_precision_loss,
    reason = "figures for people, far below 2^52"
)]

mod files;
mod lookups;
mod overrides;
#[path = "../support/mod.rs"]
mod support;
mod traffic;

use std::env;
use std::hint::black_box;
use std::sync::Arc;

use files::{Kind, Mistake};
use support::{Stopwatch, resident_bytes, run_again, settle};
use tollgate::cli::check::summary;
use tollgate::clock::Clock;
use tollgate::config::changes::changes;
use tollgate::config::{Loaded, load};
use tollgate::metrics::{Exposition, Metrics};
use tollgate::proxy::process::ActiveConfig;
use tollgate::proxy::upstream::Endpoints;
use tollgate::store::{MemoryStore, Store};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [part, routes, kind] = words.as_slice()
        && part == "one"
    {
        return one(routes.parse().expect("a number"), Kind::named(kind));
    }
    if let [part, rows, kind] = words.as_slice()
        && part == "overrides-of-one"
    {
        return overrides::one(
            rows.parse().expect("a number"),
            overrides::Kind::named(kind),
        );
    }
    let wants = |part: &str| {
        let named = words.iter().any(|word| !word.starts_with('-'));
        !named || words.iter().any(|word| word == part)
    };
    if wants("load") {
        loading();
    }
    if wants("mistakes") {
        mistakes();
    }
    if wants("lookups") {
        lookups::all();
    }
    if wants("traffic") {
        traffic::all();
    }
    if wants("overrides") {
        overrides::all();
    }
}

fn loading() {
    println!("a file by number of routes, with a tenth as many policies: CPU time in ms");
    println!(
        "{:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10}",
        "", "routes", "load", "check", "changes", "in force", "drop", "/metrics", "file", "kept"
    );
    for kind in Kind::ALL {
        for routes in [10, 1_000, 10_000] {
            run_again(&["one", &routes.to_string(), kind.name()]);
        }
    }
}

/// Prints one line of the table: loads a file, then the same file with one policy changed.
fn one(routes: usize, kind: Kind) {
    let text = files::good(routes, kind);
    let changed = text.replacen("1000000 per minute", "2000000 per minute", 1);
    let store = Store::Memory(Arc::new(MemoryStore::new(Clock::system(), 1 << 40)));
    let metrics = Arc::new(Metrics::new(2));
    let endpoints = Endpoints::new(Clock::system(), Arc::clone(&metrics));
    let warm_up = loaded(&files::good(10, kind), &store);
    drop(black_box(summary("warm-up", &warm_up)));
    drop(warm_up);
    settle();
    let before = resident_bytes();
    let (first_ms, first) = timed(|| loaded(&text, &store));
    let (_, live) = timed(|| ActiveConfig::new(first.snapshot, &metrics, &endpoints, &[7; 32]));
    settle();
    let kept = resident_bytes().saturating_sub(before);
    let (load_ms, second) = timed(|| loaded(&changed, &store));
    let (check_ms, said) = timed(|| summary("bench", &second));
    let (changes_ms, told) = timed(|| changes(&first.file, &second.file));
    assert_eq!(told.applied.len(), 1, "one policy has changed");
    let (force_ms, next) =
        timed(|| ActiveConfig::new(second.snapshot, &metrics, &endpoints, &[7; 32]));
    let (drop_ms, ()) = timed(|| drop(live));
    let (render_ms, rendered) = timed(|| metrics.render(Exposition::OpenMetrics));
    println!(
        "{:>9} {routes:>8} {:>8.2} {check_ms:>8.2} {changes_ms:>8.2} {force_ms:>8.2} {drop_ms:>8.2} {render_ms:>8.2} {:>7} kB {:>7} kB",
        kind.name(),
        first_ms.min(load_ms),
        text.len() / 1_000,
        kept / 1_000,
    );
    drop(black_box((next, said, rendered)));
}

fn mistakes() {
    println!("\n10,000 routes with a mistake in each, CPU time in ms");
    println!("{:>24} {:>10} {:>8} {:>8}", "", "mistakes", "load", "say");
    for mistake in Mistake::ALL {
        let text = files::bad(10_000, mistake);
        let (load_ms, report) = timed(|| load(&text, &|_| None, &mut |_| unreachable!()));
        let report = report.expect_err("the file has mistakes");
        let (say_ms, said) = timed(|| report.render("gateway.toml", &text, false));
        black_box(said);
        println!(
            "{:>24} {:>10} {load_ms:>8.1} {say_ms:>8.1}",
            mistake.name(),
            report.mistakes().len()
        );
    }
}

fn loaded(text: &str, store: &Store) -> Loaded {
    load(text, &|_| None, &mut |series| store.series_id(series))
        .unwrap_or_else(|report| panic!("{}", report.render("bench", text, false)))
}

/// Runs `work`, and returns its CPU time in ms, or its wall time if there is no /proc.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let watch = Stopwatch::start();
    let result = work();
    (watch.elapsed_ns() / 1e6, result)
}
