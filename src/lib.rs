//! Tollgate: a rate-limiting reverse proxy. This is the map; read it top down.
//!
//! `docs/design.md` says why it is built so, `docs/security.md` what it guarantees.
//!
//! # What a request meets
//!
//! ```text
//! proxy::downstream   listener: accepts within its capacity, hands the connection to a worker
//!                     opening: the PROXY header, then TLS (tls::server), over a socket with deadlines
//!                     connection: http1 (hyper, behind a guard of its framing) or http2 (a task for each stream)
//! proxy::journey      one function, which marks its phases:
//!   1 route           request::route finds it by the path that request::path has normalised; proxy::routing takes a
//!                     CORS preflight for the request that it announces
//!   2 identify        request::partition names the client; request::client_address believes trusted proxies;
//!                     request::reads refuses what origins could read differently; request::jwt verifies tokens
//!   3 plan            limiter: every quota of the route's policies, as one plan
//!   4 decide          store: memory, or guarded (refusal cache → redis behind its breaker → fallback)
//!                     limit: what each algorithm means, as pure functions; lua/ says the same in Redis
//!   5 forward         proxy::upstream: an endpoint, a connection from the pool; http1: the exchange on it
//!   6 settle          limiter::Decided: what the answer gives back or costs besides, without waiting
//!   7 annotate        proxy::annotate: RateLimit fields; request::hop_by_hop: what stays on one connection
//!   8 record          proxy::record: one access_log line, one set of metrics, when the answer has ended
//! proxy::trace        what a request went through, step by step, for whoever watches; nothing while nobody does
//! proxy::tunnel       after a 101: bytes of another protocol, between client and origin, untouched
//! proxy::request_headers  the one order in which a request's head is changed: before 1, after 1, before 5
//! proxy::body_cost    bodies that report a cost: reads the request's before 3; body_reading: the response's as it
//!                     passes; cost adds up
//! proxy::wire         HTTP and its connections as both sides know them: framing, chunks, deadlines, sockets
//! proxy::refusal      every "no" of the journey: its status, body, Retry-After, and whether the connection closes
//! proxy::cors         who of other origins may read that
//! ```
//!
//! # What a file becomes
//!
//! ```text
//! gateway.toml → config → snapshot::Snapshot, in which nothing can be wrong, or a Report of every mistake
//! gateway             starts it, swaps it on SIGHUP (counters, connections and pools stay), drains it on SIGTERM,
//!                     hands it over to another process on SIGUSR2 (listeners and counters go along)
//! ```
//!
//! # What operators see
//!
//! [`fault`]: why, and whose fault. [`metrics`] and [`access_log`]: how often, and each request. [`logging`]:
//! events. [`explain`]: what becomes of a request, and why. [`keys`]: what operators order for single clients.
//! [`admin`]: the private port, through which they ask and act, and its dashboard. [`cli`]: the commands. [`build_info`]: which build
//! this is.
//!
//! # Words
//!
//! The field's own words (policy, quota, window, burst, partition, upstream, endpoint) are in
//! `docs/limits.md` and `docs/configuration.md`. What has no word of the field's:
//!
//! | word | means |
//! | --- | --- |
//! | partition id | the keyed digest of whose quota it is, under which a store counts |
//! | series | the states of one quota: its policy, role (real or candidate), algorithm, shape and window, not its number |
//! | check | one quota's part of a plan: whose it is, and what the request costs there |
//! | peek | to ask what a check would be answered, and spend nothing |
//! | grant | what a policy lets a client do: spend quotas, everything, or nothing |
//! | tier | how the override that matched is shown: in the log, in fields and to origins |
//! | charge | what a decision spent and where: the only thing that can be settled (given back, or followed by more) |
//! | followed | a synced quota of a client that this gateway counts by itself and reports to Redis every so often |
//! | lease | the units of a client's quota that this gateway has bought ahead and not spent |
//! | holding | the units in flight that one client's requests hold at this gateway, a number that it announces to Redis |
//! | directive | what an operator ordered for a client, until a time: an override, a block, or a reset |
//! | trace | what one request went through; a trace id is that of W3C's Trace Context, which has nothing to do with it |
//! | step | of a trace: one thing that happened; of what is shown live: what was counted in two seconds |
//! | preview | a plan that is made to be looked at, and never decided |
//! | dry run | phases 1 to 3 for a request that nobody has sent |
//! | admission | what the limiter says of a request: go on, wait, or why not |
//! | plan policy | which of a plan's policies, counted from 0: another number than the file's `PolicyIndex` |
//! | exchange | a request and its answer, from the head's arrival to the end of the answer's body |
//! | upgrade gate | what stops reading behind a request for another protocol until that is answered; it also knows which targets were escaped |
//! | tunnel | what carries the bytes of that protocol once the origin has agreed to it (101) |
//! | endpoint | one of an upstream: `Endpoint` as the file has it, `EndpointState` as the process knows it, a `Member` with its weight, `Origin` as a worker is connected to it, an `AttemptRecord` as a request is there |
//! | attempt | one request at one endpoint; `Attempts` are all of a request |
//! | worker | a thread with connections of its own to clients, origins and Redis |
//! | fallback | what decides while Redis cannot: this node's share, everything, or nothing |
//! | sweep | what is done ten times a second, instead of a timer per request |

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
