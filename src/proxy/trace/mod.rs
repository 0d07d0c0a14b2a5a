//! Traces: what one request goes through, step by step, for whoever watches.
//!
//! While nobody watches, a request reads one flag. While somebody does, each request is looked at once it is decided, and
//! only one that somebody wants is written down. What came before that can be told only of requests whose heads were
//! copied when they arrived: some of each worker and second.

mod decision;
mod ended;
mod filter;
mod heads;
mod request_trace;
mod traced_request;
mod traces;

pub(crate) use self::decision::TracedDecision;
pub(crate) use self::ended::EndedRequest;
pub(crate) use self::filter::{TraceClient, TraceFilter};
pub(crate) use self::request_trace::RequestTrace;
pub(crate) use self::traced_request::TracedRequest;
pub(crate) use self::traces::{HeadCopies, TraceWatcher, Traces, WATCHERS_MAX};
