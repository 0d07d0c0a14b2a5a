//! Nanoseconds per lookup, among few routes and among many.

use std::hint::black_box;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method};
use tollgate::config::load;
use tollgate::limit::plan::SeriesId;
use tollgate::request::route::{Lookup, PathPattern, Router, Rule};

use super::files::{self, Kind};
use super::timed;

/// A lookup: its name, the host and path, and the index of the route that it finds.
type Case = (&'static str, &'static str, &'static str, usize);

pub fn all() {
    println!("\nns per lookup, by number of routes");
    println!("{:>34} {:>9} {:>9} {:>9}", "", "80", "1000", "10000");
    let cases: [(Kind, &[Case]); 4] = [
        (
            Kind::Mixed,
            &[
                (
                    "exact host, literal",
                    "api-0.example.com",
                    "/service-0/items",
                    1,
                ),
                (
                    "exact host, parameters",
                    "api-0.example.com",
                    "/service-0/items/17/parts/4",
                    5,
                ),
                (
                    "exact host, rest",
                    "api-0.example.com",
                    "/service-0/a/b/c/d/e/f",
                    0,
                ),
                (
                    "exact host, 404",
                    "api-0.example.com",
                    "/nowhere/items/17",
                    MISS,
                ),
                (
                    "unknown host, 404",
                    "a.b.c.d.e.example.com",
                    "/service-0/items",
                    MISS,
                ),
            ],
        ),
        (
            Kind::Flat,
            &[
                ("one level of literals", "x.org", "/service-3/a", 3),
                ("one level of literals, 404", "x.org", "/service-x/a", MISS),
            ],
        ),
        (
            Kind::Regex,
            &[
                ("expression", "x.org", "/v1/service-7/orders/1", 7),
                ("expression, 404", "x.org", "/v1/orders/service/7", MISS),
            ],
        ),
        (Kind::Tenants, &[("header's value", "x.org", "/a", 5)]),
    ];
    for (kind, (name, host, path, route)) in cases
        .iter()
        .flat_map(|(kind, cases)| cases.iter().map(move |case| (*kind, *case)))
    {
        print!("{name:>34}");
        for routes in [80, 1_000, 10_000] {
            let router = router(routes, kind);
            let found = find(&router, host, path);
            assert_eq!(found, route, "{name}");
            print!(" {:>9.0}", per_lookup(&router, host, path));
        }
        println!();
    }
    last_hosts();
    near_misses();
}

/// Measures hosts at the end of the file: the last wildcard, and the last that any route without a host takes.
fn last_hosts() {
    for (name, rest) in [("wildcard host", 8), ("any host", 9)] {
        print!("{name:>34}");
        for routes in [400, 1_200, 10_000] {
            let router = router(routes, Kind::Mixed);
            let host = (routes / 40 - 1) / 10 * 10 + rest;
            let host = if host * 40 < routes { host } else { host - 10 };
            let path = format!("/service-{}/items/17", host * 5);
            let host = format!("x.y.group-{host}.example.com");
            assert_ne!(find(&router, &host, &path), MISS, "{name}");
            print!(" {:>9.0}", per_lookup(&router, &host, &path));
        }
        println!();
    }
}

/// Measures a path that every route nearly matches, except for its end.
fn near_misses() {
    println!(
        "\nns per lookup that every route nearly matches, by number of segments (each a literal or a parameter)"
    );
    for depth in [4, 8, 13] {
        let rules = (0..1_usize << depth).map(|bits| {
            let segments = (0..depth).map(|at| match bits >> at & 1 {
                0 => "/a".to_owned(),
                _ => format!("/{{p{at}}}"),
            });
            rule(&(segments.collect::<String>() + "/end"))
        });
        let router = Router::new(rules.collect()).expect("no ties");
        let path = "/a".repeat(depth) + "/miss";
        println!(
            "{:>34} {:>9} {:>9.0}",
            depth,
            1 << depth,
            per_lookup(&router, "x.org", &path)
        );
    }
}

fn rule(path: &str) -> Rule {
    Rule {
        path: PathPattern::parse(path).expect("a good pattern"),
        host: None,
        methods: Vec::new(),
        headers: Vec::new(),
        case_insensitive: false,
    }
}

fn router(routes: usize, kind: Kind) -> Arc<Router> {
    let text = files::good(routes, kind);
    let loaded = load(&text, &|_| None, &mut |_| SeriesId(0)).expect("a good file");
    loaded.snapshot.router
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("x.org"));
    headers.insert("accept", HeaderValue::from_static("*/*"));
    headers.insert("x-tenant", HeaderValue::from_static("tenant-5"));
    headers
}

fn find(router: &Router, host: &str, path: &str) -> usize {
    match router.find(host, &Method::GET, path, &headers()) {
        Lookup::Found(found) => found.route.into(),
        _ => MISS,
    }
}

fn per_lookup(router: &Router, host: &str, path: &str) -> f64 {
    let headers = headers();
    let look_up = |times: u32| {
        for _ in 0..times {
            let found = router.find(black_box(host), &Method::GET, black_box(path), &headers);
            black_box(found);
        }
    };
    let mut times = 100;
    loop {
        let (ms, ()) = timed(|| look_up(times));
        if ms > ENOUGH_MS {
            return ms * 1e6 / f64::from(times);
        }
        times *= 4;
    }
}

/// Stands for the route of a lookup that finds none.
const MISS: usize = usize::MAX;
/// A lookup is repeated for at least this long.
const ENOUGH_MS: f64 = 50.0;
