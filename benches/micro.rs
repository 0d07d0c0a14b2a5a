//! What the pure parts of a request's journey cost: time and allocations per call.
//!
//! `cargo bench --bench micro`; words after `--` choose among them, such as `rendering`. The figures are for
//! comparison: `cargo bench --bench proxy` says what a gateway costs as a whole.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use divan::{AllocProfiler, Bencher};
use futures_util::FutureExt;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use mimalloc::MiMalloc;
use tollgate::clock::{Clock, Micros};
use tollgate::config::load;
use tollgate::cost::{
    BodyFormat, BodyNumbers, JsonPointer, NumberReader, PointerUse, Pointers, Take,
};
use tollgate::limit::Retry;
use tollgate::limiter::{Decided, Limiter};
use tollgate::proxy::annotate::annotate;
use tollgate::proxy::forwarded::{self, LatestFields, Sender};
use tollgate::proxy::refusal::{Dialect, OverQuota, Refusal};
use tollgate::request::path::normalise;
use tollgate::request::route::{Found, Lookup};
use tollgate::request::{
    ClientPrefixes, Facts, LatestPartition, Missing, hop_by_hop, host, partition_id,
};
use tollgate::snapshot::{RateLimitHeaders, Snapshot};
use tollgate::store::{MemoryStore, Session, Store};

#[global_allocator]
static ALLOCATOR: AllocProfiler<MiMalloc> = AllocProfiler::new(MiMalloc);

fn main() {
    divan::main();
}

/// A configuration whose routes have the policies that their paths name, and the headers of a request.
struct World {
    snapshot: Snapshot,
    store: Session,
    headers: HeaderMap,
}

impl World {
    fn new() -> Self {
        let store = Store::Memory(Arc::new(MemoryStore::new(Clock::system(), 1 << 30)));
        let routes = ROUTES.map(|(path, policies)| {
            format!("[[routes]]\npath = '{path}'\nupstream = 'api'\npolicies = {policies:?}\n")
        });
        let config = format!("{TABLES}{}", routes.concat());
        let loaded = load(&config, &|_| None, &mut |series| store.series_id(series));
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "api.example.com"),
            ("user-agent", "curl/8.5.0"),
            ("accept", "*/*"),
            ("accept-encoding", "gzip, br"),
            ("x-api-key", "0123456789abcdef0123456789abcdef"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Self {
            snapshot: loaded.expect("a configuration").snapshot,
            store: store.session(),
            headers,
        }
    }

    fn find(&self, path: &str) -> Found {
        match (self.snapshot.router).find("api.example.com", &Method::GET, path, &self.headers) {
            Lookup::Found(found) => found,
            other => unreachable!("{path} has a route, not {other:?}"),
        }
    }

    /// Calls `call` with the facts of a request for `path`.
    fn with_facts<R>(&self, path: &str, call: impl FnOnce(&Facts<'_>) -> R) -> R {
        let found = self.find(path);
        call(&Facts {
            client: Some(CLIENT),
            prefixes: ClientPrefixes::default(),
            headers: &self.headers,
            host: "api.example.com",
            method: &Method::GET,
            route_name: &self.snapshot.routes[found.route].name,
            path,
            query: None,
            claims: None,
            client_cert: None,
            found: &found,
            router: &self.snapshot.router,
        })
    }

    fn decide(&self, facts: &Facts<'_>, latest: &RefCell<LatestPartition>) -> Decided {
        let limiter = Limiter {
            snapshot: &self.snapshot,
            partition_key: &KEY,
            digest_key: &KEY,
            store: &self.store,
            thresholds: None,
            notes: None,
        };
        let mut decided = Decided::default();
        let route = &self.snapshot.routes[facts.found.route];
        let admission = limiter.decide(&route.policies, facts, latest, None, &mut decided);
        black_box(admission.now_or_never());
        decided
    }
}

#[divan::bench(args = ["/plain", "/items/17/parts/4", "/rest/a/b/c/d"])]
fn routing(bencher: Bencher<'_, '_>, path: &str) {
    let world = World::new();
    bencher.bench_local(|| world.find(black_box(path)));
}

#[divan::bench(args = ["/items/17/parts/4", "/items/%7euser/../17"])]
fn normalising(bencher: Bencher<'_, '_>, path: &str) {
    bencher.bench(|| normalise(black_box(path)).is_ok());
}

#[divan::bench]
fn reading_the_host(bencher: Bencher<'_, '_>) {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("api.example.com:8080"));
    let target = Uri::from_static("/plain");
    bencher.bench(|| host(black_box(&target), &headers, Version::HTTP_11).is_ok());
}

#[divan::bench(args = ["/one", "/by-key"])]
fn partitioning(bencher: Bencher<'_, '_>, path: &str) {
    let world = World::new();
    world.with_facts(path, |facts| {
        let policy = world.snapshot.routes[facts.found.route].policies[0].policy;
        let partition = &world.snapshot.policies[policy].partition;
        bencher.bench_local(|| partition_id(&KEY, partition, Missing::Share, black_box(facts)));
    });
}

#[divan::bench(args = ["/one", "/by-key", "/three", "/window", "/log", "/refused"])]
fn planning_and_deciding(bencher: Bencher<'_, '_>, path: &str) {
    let world = World::new();
    let latest = RefCell::default();
    world.with_facts(path, |facts| {
        bencher.bench_local(|| world.decide(black_box(facts), &latest));
    });
}

#[divan::bench(args = ["/one", "/three"])]
fn rendering_limits(bencher: Bencher<'_, '_>, path: &str) {
    let world = World::new();
    let decided = world.with_facts(path, |facts| world.decide(facts, &RefCell::default()));
    let mut buffer = Vec::new();
    bencher
        .with_inputs(|| HeaderMap::with_capacity(8))
        .bench_local_values(|mut headers| {
            let infos = decided.infos(&world.snapshot);
            annotate(&mut headers, RateLimitHeaders::Ietf, infos, &mut buffer);
            headers
        });
}

#[divan::bench]
fn rendering_forwarded(bencher: Bencher<'_, '_>) {
    let world = World::new();
    let filter = &world.snapshot.head_filter;
    bencher
        .with_inputs(|| world.headers.clone())
        .bench_local_values(|mut headers| {
            hop_by_hop::strip_request(&mut headers, filter, |_| false);
            forwarded::annotate(&mut headers, &SENDER);
            headers
        });
}

#[divan::bench]
fn rendering_forwarded_again(bencher: Bencher<'_, '_>) {
    let world = World::new();
    let mut latest = LatestFields::default();
    bencher.bench_local(|| forwarded::common(black_box(&world.headers), &SENDER, &mut latest));
}

#[divan::bench]
fn rendering_a_refusal(bencher: Bencher<'_, '_>) {
    let world = World::new();
    let quotas = world
        .snapshot
        .policies
        .iter()
        .flat_map(|policy| policy.grant.quotas());
    let violated: Vec<_> = quotas.take(1).collect();
    let over = OverQuota {
        retry: Retry::After(Micros(1_500_000)),
        policy: None,
        violated: &violated,
        is_punished: false,
        too_large: None,
    };
    bencher.bench(|| {
        let refusal = Refusal::quota_exceeded(black_box(&over));
        refusal.into_response(Dialect::Http, HeaderMap::new())
    });
}

/// Reads 100 KiB of JSON in pieces of 16 KiB; `filling` is what most of it consists of.
#[divan::bench(args = ["prose", "escapes", "numbers", "numbers-read", "strings", "brackets"])]
fn reading_100_kib(bencher: Bencher<'_, '_>, filling: &str) {
    let filled = |piece: &str| piece.repeat(100 * 1024 / piece.len());
    let filling = match filling {
        "prose" => format!("\"{}\"", filled(PROSE)),
        "escapes" => format!("\"{}\"", filled(r#"\n\"\u00e9"#)),
        "numbers" => format!("[{}0]", filled("-0.0123456,")),
        "numbers-read" => format!("0{}", filled(r#","x":12345"#)),
        "strings" => format!("[{}0]", filled(r#"{"id":"a1","kind":"b"},"#)),
        _ => format!("[{}0]", filled("[[]],")),
    };
    let body = format!(r#"{{"id":"c-1","x":{filling},"usage":{{"total_tokens":1234}}}}"#);
    let pointers = compiled(&["/usage/total_tokens", "/x"]);
    bencher.bench_local(|| {
        read(
            &pointers,
            BodyFormat::Json,
            black_box(body.as_bytes()),
            16_384,
        )
    });
}

/// Reads a stream of 10,000 events, one at a time.
#[divan::bench]
fn reading_10_000_events(bencher: Bencher<'_, '_>) {
    let stream = EVENT.repeat(10_000) + USAGE_EVENT;
    let pointers = compiled(&["/usage/prompt_tokens", "/usage/completion_tokens"]);
    let format = BodyFormat::EventStream;
    bencher.bench_local(|| read(&pointers, format, black_box(stream.as_bytes()), EVENT.len()));
}

fn compiled(pointers: &[&str]) -> Arc<Pointers> {
    let pointers = pointers
        .iter()
        .map(|pointer| JsonPointer::parse(pointer).expect("a pointer"))
        .map(|pointer| (pointer, PointerUse::Number(Take::Largest)));
    Arc::new(Pointers::new(&pointers.collect::<Vec<_>>()).expect("few pointers"))
}

fn read(pointers: &Arc<Pointers>, format: BodyFormat, body: &[u8], piece: usize) -> BodyNumbers {
    let mut reader = NumberReader::new(pointers.clone(), format, None);
    body.chunks(piece).for_each(|piece| reader.read(piece));
    let reading = reader.finish();
    assert!(reading.is_whole);
    reading
}

const PROSE: &str = r#"It was the best of times, it was the worst of times, it was \"wisdom\".\n"#;
const EVENT: &str = r#"data: {"id":"chatcmpl-9x2","object":"chat.completion.chunk","created":1763900000,"model":"m-4o-mini","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}],"usage":null}

"#;
const USAGE_EVENT: &str = r#"data: {"id":"chatcmpl-9x2","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10000}}

data: [DONE]

"#;
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const SENDER: Sender<'_> = Sender {
    peer: Some(CLIENT),
    client: Some(CLIENT),
    believed: None,
    scheme: "http",
};
const KEY: [u8; 32] = [7; 32];
/// The routes' paths, each with its policies.
const ROUTES: [(&str, &[&str]); 9] = [
    ("/plain", &[]),
    ("/items/{item}/parts/{part}", &[]),
    ("/rest/*", &[]),
    ("/one", &["one"]),
    ("/by-key", &["by-key"]),
    ("/three", &["one", "several"]),
    ("/window", &["window"]),
    ("/log", &["log"]),
    ("/refused", &["refusing"]),
];
/// The tables of the file besides its routes.
const TABLES: &str = r#"
[listeners.public]
address = "127.0.0.1:8080"

[upstreams.api]
endpoints = ["http://127.0.0.1:9000"]

[policies.one]
quota = "1000000 per 1s"
algorithm = "gcra"

[policies.by-key]
quota = "1000000 per 1s"
algorithm = "gcra"
partition = ["header:x-api-key"]

[policies.window]
quota = "1000000000 per 1h"

[policies.several]
quota = ["1000000 per 1s", "1000000000 per 1h"]

[policies.log]
quota = "100 per 1ms"
algorithm = "sliding-log"

[policies.refusing]
quota = "1 per 1h"
algorithm = "gcra"
"#;
