//! Traces: what one request goes through, step by step, for those who watch.
//!
//! While nobody watches, a request only reads one flag. While somebody does, each request is compared with the filters
//! of the watchers once it is decided, and written down only if one of them wants it. What came before the decision can
//! be told only of requests whose heads were copied on arrival; each worker copies a bounded number of them a second.

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
