//! The admin port over a real socket: whole responses, byte for byte.

pub mod api;
mod commands;
mod connections;
mod dashboard;
mod live;
mod trace;
mod usage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tollgate::admin::{self, AdminState, ReloadControl, ReloadPreview, ReloadReport, ReloadSource};
use tollgate::clock::Clock;
use tollgate::config;
use tollgate::keys::ActiveSources;
use tollgate::metrics::{BreakerState, Metrics, RedisUsage, ServerUsage, Usage};
use tollgate::proxy::process::{ActiveConfig, Process};
use tollgate::proxy::upstream::Endpoints;
use tollgate::proxy::wire::accepting::Accepting;
use tollgate::store::{MemoryStore, Store};

use crate::support::Config;

/// Panics when a reload is asked for.
#[derive(Debug)]
struct NoReloads;

impl ReloadControl for NoReloads {
    fn reload(&self, _: ReloadSource) -> Arc<ReloadReport> {
        unreachable!("nobody asks for a reload")
    }

    fn preview(&self, _: ReloadSource) -> ReloadPreview {
        unreachable!("nobody asks what a reload would change")
    }

    fn last(&self) -> Option<Arc<ReloadReport>> {
        None
    }

    fn path(&self) -> Option<PathBuf> {
        None
    }

    fn configuration(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Runs a test on a runtime like the control thread's.
fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(test);
}

/// Starts an admin port on a free port, for a process in which nothing else runs.
async fn start() -> (SocketAddr, Arc<AdminState>) {
    let config = Config::limited("http://127.0.0.1:9", "quota = '9 per minute'");
    let (address, state, accepts) = start_on(&config).await;
    // Leaked, so that the channel stays open and the port goes on accepting.
    std::mem::forget(accepts);
    (address, state)
}

/// Starts an admin port that can be told to pause.
async fn start_on(config: &Config) -> (SocketAddr, Arc<AdminState>, watch::Sender<Accepting>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound port");
    let clock = Clock::manual(crate::support::START);
    let memory = Arc::new(MemoryStore::new(clock.clone(), u64::MAX));
    let text = config.text();
    let loaded = config::load(&text, &|_| None, &mut |series| memory.series_id(series));
    let config::Loaded { snapshot, file, .. } = loaded.expect("a good file");
    let metrics = Arc::new(Metrics::new(1));
    let endpoints = Arc::new(Endpoints::new(clock.clone(), Arc::clone(&metrics)));
    let key = [0; 32];
    let store = Store::open(&snapshot.store, memory, clock.clone(), &key);
    let session = store.session();
    let live = ActiveConfig::new(snapshot, &metrics, &endpoints, &key);
    let process = Process::new(live, clock, store, metrics, endpoints, key);
    let sources = Arc::new(ActiveSources::new(file));
    sources.is_known.store(true, Relaxed);
    let state = AdminState::new(Arc::new(process), sources, Arc::new(NoReloads));
    let state = Arc::new(state);
    let (accepts, accepting) = watch::channel(Accepting::Yes);
    let serving = admin::serve(listener, Arc::clone(&state), session, accepting);
    tokio::task::spawn_local(serving);
    (address, state, accepts)
}

/// A change made now would be lost, because the other process has already been told what is in force.
#[test]
fn nothing_is_changed_while_another_process_takes_over() {
    run(async {
        let config = Config::limited("http://127.0.0.1:9", "quota = '9 per minute'");
        let config = config.admin("127.0.0.1:0").admin_token("0123456789abcdef");
        let (address, _state, accepts) = start_on(&config).await;
        let mut kept = TcpStream::connect(address).await.expect("a connection");
        let mut ask = async |request: &str| {
            let head = "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n";
            let request = format!("{request} HTTP/1.1\r\n{head}");
            kept.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = vec![0; 4096];
            let read = kept.read(&mut answer).await.expect("an answer");
            String::from_utf8_lossy(&answer[..read]).into_owned()
        };
        assert!(ask("GET /livez").await.starts_with("HTTP/1.1 200"));
        accepts.send_replace(Accepting::Paused);
        assert!(ask("GET /livez").await.starts_with("HTTP/1.1 200"));
        let refused = ask("POST /api/reload").await;
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert!(refused.contains("try again"), "{refused}");
    });
}

/// Sends a request that is the last on its connection, and reads to the end; the date is left out.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = request.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .await
        .expect("an answer");
    let lines = response.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

async fn get(address: SocketAddr, path: &str) -> String {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    )
    .await
}

fn plain(status: &str, body: &str) -> String {
    whole(status, "text/plain; charset=utf-8", "", body)
}

fn problem(status: &str, fields: &str, detail: &str) -> String {
    let (code, title) = status.split_once(' ').expect("a code and a title");
    let body = format!(
        "{{\"detail\":\"{detail}\",\"status\":{code},\"title\":\"{title}\",\"type\":\"about:blank\"}}\n"
    );
    whole(status, "application/problem+json", fields, &body)
}

fn whole(status: &str, content_type: &str, fields: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n\
         cache-control: no-store\r\n{fields}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn readiness_follows_the_gateway_and_liveness_does_not() {
    run(async {
        let (address, state) = start().await;
        assert_eq!(
            get(address, "/readyz").await,
            plain("503 Service Unavailable", "not ready\n")
        );
        assert_eq!(get(address, "/livez").await, plain("200 OK", "ok\n"));
        state.is_ready.store(true, Relaxed);
        assert_eq!(get(address, "/readyz").await, plain("200 OK", "ok\n"));
        state.is_ready.store(false, Relaxed);
        assert_eq!(
            get(address, "/readyz?x").await,
            plain("503 Service Unavailable", "not ready\n")
        );
    });
}

#[test]
fn readiness_names_the_servers_that_are_too_far_away() {
    run(async {
        let (address, state) = start().await;
        state.is_ready.store(true, Relaxed);
        let server = |name: &str, is_far| ServerUsage {
            name: name.into(),
            breaker: BreakerState::Closed,
            is_far,
            evicts_all: false,
            is_forgetful: false,
        };
        let servers = vec![server("near:6379", false), server("far:6379", true)];
        state.process.metrics.observe_store(move || Usage {
            redis: Some(Box::new(RedisUsage {
                servers: servers.clone(),
                ..RedisUsage::default()
            })),
            ..Usage::default()
        });
        let body = "ok\n[store] timeout is below two round trips to far:6379: raise it, or move Redis closer\n";
        assert_eq!(get(address, "/readyz").await, plain("200 OK", body));
    });
}

#[test]
fn metrics_are_what_the_process_counted() {
    run(async {
        let (address, state) = start().await;
        state
            .process
            .metrics
            .panicked(state.process.metrics.control());
        for (accept, media_type, end) in [
            ("", "text/plain; version=0.0.4", "\n"),
            ("Accept: */*\r\n", "text/plain; version=0.0.4", "\n"),
            (
                "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n",
                "application/openmetrics-text; version=1.0.0",
                "\n# EOF\n",
            ),
        ] {
            let of = |method: &str| {
                format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n")
            };
            let answer = exchange(address, &of("GET")).await;
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let expected = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {media_type}; charset=utf-8\r\n\
                 cache-control: no-store\r\nconnection: close\r\ncontent-length: {}",
                body.len()
            );
            assert_eq!(head, expected);
            assert!(body.contains("\ntollgate_panics_total 1\n"), "{body}");
            assert!(body.ends_with(end), "{body}");
            let head = exchange(address, &of("HEAD")).await;
            assert!(
                head.contains(&format!("content-type: {media_type};")),
                "{head}"
            );
            assert!(head.ends_with("\r\n\r\n"), "{head}");
        }
    });
}

#[test]
fn anything_else_is_refused_without_reflecting_it() {
    run(async {
        let (address, _state) = start().await;
        for (path, hint) in [
            ("/x", ""),
            ("/livez/", "; did you mean `/livez`?"),
            ("/%6civez", ""),
            ("//livez", "; did you mean `/livez`?"),
            ("/api/reloads", "; did you mean `/api/reload`?"),
        ] {
            let detail = format!("There is no such path{hint}");
            let answer = get(address, path).await;
            assert_eq!(answer, problem("404 Not Found", "", &detail), "{path}");
        }
        for (method, path, allow) in [
            ("POST", "/livez", "GET, HEAD"),
            ("DELETE", "/api/reload", "GET, HEAD, POST"),
            ("DELETE", "/", "GET, HEAD"),
            ("PUT", "/metrics", "GET, HEAD"),
            ("OPTIONS", "/metrics", "GET, HEAD"),
            ("POST", "/api/config", "GET, HEAD"),
        ] {
            let request =
                format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
            let (allow, detail) = (
                format!("allow: {allow}\r\n"),
                format!("This path takes {allow}."),
            );
            let expected = problem("405 Method Not Allowed", &allow, &detail);
            assert_eq!(exchange(address, &request).await, expected);
        }
    });
}

#[test]
fn only_an_address_or_localhost_is_a_host_of_the_admin_port() {
    run(async {
        let (address, _state) = start().await;
        let port = address.port();
        let host = |host: &str| format!("Host: {host}\r\n");
        let mut failures = Vec::new();
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
            for path in ["/", "/livez", "/readyz", "/metrics", "/none", "*"] {
                for (version, fields, is_known) in [
                    ("1.1", host("127.0.0.1"), true),
                    ("1.1", host(&format!("127.0.0.1:{port}")), true),
                    ("1.1", host("10.1.2.3:1"), true),
                    ("1.1", host("[::1]:8090"), true),
                    ("1.1", host("[fd00::1]"), true),
                    ("1.1", host("LOCALHOST:8090"), true),
                    ("1.0", String::new(), true),
                    ("1.0", host("localhost"), true),
                    ("1.1", host("evil.test"), false),
                    ("1.0", host("evil.test"), false),
                    ("1.1", host(&format!("evil.test:{port}")), false),
                    ("1.1", host("localhost.evil.test"), false),
                    ("1.1", host("127.0.0.1.evil.test"), false),
                    ("1.1", host("2130706433"), false),
                    ("1.1", host("localhost@evil.test"), false),
                    ("1.1", host(""), false),
                    ("1.1", String::new(), false),
                    ("1.1", host("localhost") + &host("evil.test"), false),
                    ("1.1", host("localhost") + &host("localhost"), false),
                ] {
                    let request = format!("{method} {path} HTTP/{version}\r\n{fields}\r\n");
                    let answer = exchange(address, &request).await;
                    let is_refused = answer.contains("403 Forbidden\r\n");
                    if is_refused == is_known {
                        failures.push(request);
                    }
                }
            }
        }
        for target in ["http://evil.test/metrics", "http://127.0.0.1/metrics"] {
            let host = if target.contains("evil") {
                "localhost"
            } else {
                "evil.test"
            };
            let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            if !exchange(address, &request)
                .await
                .contains("403 Forbidden\r\n")
            {
                failures.push(request);
            }
        }
        assert_eq!(failures, Vec::<String>::new());
    });
}

#[test]
fn no_other_site_can_have_a_browser_ask_the_admin_port() {
    run(async {
        let (address, _state) = start().await;
        let own = format!("127.0.0.1:{}", address.port());
        for (fields, is_own) in [
            (format!("Origin: http://{own}"), true),
            (format!("Origin: https://{own}"), true),
            ("Sec-Fetch-Site: same-origin".to_owned(), true),
            ("Sec-Fetch-Site: none".to_owned(), true),
            ("Origin: http://evil.test".to_owned(), false),
            ("Origin: http://127.0.0.1".to_owned(), false),
            (format!("Origin: {own}"), false),
            (format!("Origin: ftp://{own}"), false),
            (format!("Origin: http://{own}.evil.test"), false),
            ("Origin: null".to_owned(), false),
            ("Origin:".to_owned(), false),
            (format!("Origin: http://{own}\r\nOrigin: null"), false),
            ("Sec-Fetch-Site: cross-site".to_owned(), false),
            ("Sec-Fetch-Site: same-site".to_owned(), false),
            (
                format!("Origin: http://{own}\r\nSec-Fetch-Site: cross-site"),
                false,
            ),
        ] {
            for method in ["GET", "HEAD", "POST", "OPTIONS"] {
                for path in ["/", "/livez", "/metrics", "/api/overview", "/none"] {
                    let request =
                        format!("{method} {path} HTTP/1.1\r\nHost: {own}\r\n{fields}\r\n\r\n");
                    let answer = exchange(address, &request).await;
                    assert_eq!(!answer.contains("403 Forbidden\r\n"), is_own, "{request}");
                    assert!(!answer.contains("access-control"), "{answer}");
                }
            }
        }
    });
}

#[test]
fn a_link_of_another_site_leads_to_the_dashboard_and_nowhere_else() {
    run(async {
        let (address, _state) = start().await;
        let visit =
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document";
        for (request, fields, status) in [
            ("GET /", String::new(), 200),
            ("GET /", "\r\nOrigin: null".to_owned(), 403),
            ("POST /", String::new(), 403),
            ("GET /api/overview", String::new(), 403),
            ("GET /dashboard/app.js", String::new(), 403),
        ] {
            let request =
                format!("{request} HTTP/1.1\r\nHost: 127.0.0.1\r\n{visit}{fields}\r\n\r\n");
            let answer = exchange(address, &request).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}{answer}"
            );
        }
        let framed = visit.replace("document", "iframe");
        let request = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n{framed}\r\n\r\n");
        assert!(
            exchange(address, &request)
                .await
                .starts_with("HTTP/1.1 403 ")
        );
    });
}

#[test]
fn what_is_watched_ends_when_another_process_has_taken_over() {
    run(async {
        let (address, _state, accepts) = start_on(
            &Config::limited("http://127.0.0.1:9", "quota = '9 per minute'").admin("127.0.0.1:0"),
        )
        .await;
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request =
            "GET /api/live HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut some = [0; 64];
        stream.read_exact(&mut some).await.expect("a beginning");
        accepts.send_replace(Accepting::PassedOn);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    });
}
