//! Tollgate: a rate-limiting reverse proxy. This is the map; read it top down.
//!
//! `docs/design.md` says why it is built this way, `docs/security.md` what it guarantees.
//!
//! # What a request meets
//!
//! ```text
//! proxy::downstream   listener: accepts while it has capacity, hands the connection to a worker
//!                     opening: the PROXY header, then TLS (tls::server), over a socket with deadlines
//!                     connection: http1 (hyper, with a guard of framing before it) or http2 (a task per stream)
//! proxy::journey      one function, with a line or two for each phase:
//!   1 route           request::route finds it by the path that request::path has normalised; proxy::routing takes a
//!                     CORS preflight as the request that it announces
//!   2 identify        request::partition names the client; request::client_address trusts what trusted proxies say;
//!                     request::reads refuses what origins could read in two ways; request::jwt verifies tokens
//!   3 plan            limiter: every quota of the route's policies, as one plan
//!   4 decide          store: memory, or guarded (refusal cache → redis behind its breaker → fallback)
//!                     limit: the algorithms as pure functions; lua/ has the same ones for Redis
//!   5 forward         proxy::upstream: an endpoint, a connection from the pool; http1: the exchange on it
//!   6 settle          limiter::Decided: what the response refunds or costs in addition, without waiting
//!   7 annotate        proxy::annotate: RateLimit fields; request::hop_by_hop: what stays on one connection
//!   8 record          proxy::record: one access_log line, one set of metrics, when the response has ended
//! proxy::trace        what a request goes through, step by step, for operators who watch; costs nothing if none does
//! proxy::tunnel       after a 101: passes the bytes of another protocol between client and origin, unchanged
//! proxy::request_headers  every change to a request's head, in order: before 1, after 1, before 5
//! proxy::body_cost    costs that bodies report: reads the request's body before 3; body_reading reads the response's
//!                     as it passes; cost adds them up
//! proxy::wire         what both sides need of HTTP and its connections: framing, chunks, deadlines, sockets
//! proxy::refusal      every refusal: its status, body, Retry-After, and whether the connection closes
//! proxy::cors         which other origins may read a refusal
//! ```
//!
//! # What a file becomes
//!
//! ```text
//! gateway.toml → config → snapshot::Snapshot, in which nothing can be invalid, or a Report of every mistake
//! gateway             starts with it, replaces it on SIGHUP (counters, connections and pools stay), drains on SIGTERM,
//!                     hands listeners and counters over to another process on SIGUSR2
//! ```
//!
//! # What operators see
//!
//! [`fault`]: why a request failed, and whose fault it was. [`metrics`]: counts. [`access_log`]: a line per request.
//! [`logging`]: events. [`explain`]: what would become of a request, and why. [`keys`]: directives for single
//! clients. [`admin`]: the private port, with an API for these and a dashboard. [`cli`]: the commands. [`build_info`]:
//! which build this is.
//!
//! # Words
//!
//! Standard terms (policy, quota, window, burst, partition, upstream, endpoint) are explained in `docs/limits.md` and
//! `docs/configuration.md`. Terms of this code base:
//!
//! | word | means |
//! | --- | --- |
//! | partition id | a keyed digest of the partition, under which a store counts |
//! | series | all states of one quota; identified by its policy, role (real or candidate), algorithm, shape and window, but not by its number of units |
//! | check | one quota of a plan, with the partition and what the request costs there |
//! | peek | to ask what the result of a check would be, without spending anything |
//! | grant | what a policy lets a client do: spend quotas, everything, or nothing |
//! | tier | the name of the override that matched, as shown in the log, in fields and to origins |
//! | charge | what a decision spent, and where; only a charge can be settled (refunded, or increased) |
//! | followed | said of a client's synced quota that this gateway counts itself and reports to Redis now and then |
//! | lease | the units of a client's quota that this gateway has bought ahead and not spent |
//! | holding | how many units in flight one client's requests hold at this gateway, which announces the number to Redis |
//! | directive | what an operator ordered for a client, until some time: an override, a block, or a reset |
//! | trace | what one request went through, step by step; not related to trace ids, which are those of W3C Trace Context |
//! | step | in a trace: one event; in what is shown live: the counts of two seconds |
//! | preview | a plan that is only looked at, and never decided |
//! | dry run | phases 1 to 3 for a hypothetical request |
//! | admission | the limiter's verdict on a request: go on, wait, or why not |
//! | plan policy | the index of a policy within a plan, unlike `PolicyIndex`, its index in the file |
//! | exchange | a request and its response, from the arrival of the head to the end of the response's body |
//! | upgrade gate | holds back what a client sends after a request for another protocol until that has its response; also knows which targets were escaped |
//! | tunnel | carries the bytes of that protocol once the origin has agreed to it (101) |
//! | endpoint | an address of an upstream: `Endpoint` in the configuration, `EndpointState` in the process, `Member` with its weight, `Origin` with a worker's connections, `AttemptRecord` in a request |
//! | attempt | a request's try at one endpoint; `Attempts` are all tries of the request |
//! | worker | a thread with its own connections to clients, origins and Redis |
//! | fallback | what decides while Redis is not available: admits this gateway's share, everything, or nothing |
//! | sweep | a pass over all deadlines, ten times a second, in place of a timer per request |

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod build_info;
mod chance;
pub mod clock;
pub mod cost;
pub mod fault;
pub mod index;
pub mod logging;
pub mod metrics;
pub mod tls;

pub mod access_log;

pub mod limit;
pub mod store;

pub mod request;
pub mod snapshot;

pub mod config;

pub mod limiter;

pub mod keys;

pub mod proxy;

pub mod explain;

pub mod admin;
pub mod gateway;

pub mod cli;
