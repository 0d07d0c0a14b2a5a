//! A request that is over, as its watchers see it.

use std::sync::Arc;

use http::StatusCode;

use crate::clock::Timestamp;

/// A request that is over, step by step.
#[derive(Debug)]
pub(crate) struct TracedRequest {
    pub(crate) end: TracedEnd,
    pub(crate) steps: Vec<TraceStep>,
}

/// What is known of a request once it is over.
#[derive(Debug)]
pub(crate) struct TracedEnd {
    pub(crate) id: Option<String>,
    /// When the request's head had arrived, by wall time.
    pub(crate) at: Timestamp,
    pub(crate) method: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) status: Option<StatusCode>,
    pub(crate) route: Option<Arc<str>>,
    /// The client, as the log shows it.
    pub(crate) client: String,
    pub(crate) took_us: u64,
}

/// One thing that happened to a request.
#[derive(Debug)]
pub(crate) struct TraceStep {
    /// Time since the request's head had arrived, in microseconds.
    pub(crate) at_us: u64,
    pub(crate) step: &'static str,
    /// What happened, in one or more lines.
    pub(crate) text: String,
}
