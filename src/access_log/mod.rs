//! The access log: one line per request, formatted by the worker and written by another thread.
//!
//! A worker formats records into a block of its own. When the block is full, or [`Writer::flush`] is called, as it is a
//! few times a second, the block goes to the log's [`Output`]. So a request costs a copy of bytes: no allocation, no
//! wake-up, no system call. Lines that the output cannot take are dropped, and counted there.
//!
//! The code that fills the [`AccessEntry`] decides which of a client's values are shown in clear.

mod line;

use std::cell::RefCell;

use crate::clock::Timestamp;
use crate::cost::MissingCost;
use crate::fault::Reason;
use crate::logging::{Block, LogFormat, Output};
use crate::metrics::PolicyOutcome;
pub(crate) use line::rfc3339;
use line::{LogLine, key};

/// Which requests are in the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// Every request.
    #[default]
    All,
    /// Requests that the gateway refused.
    Refused,
    /// No request.
    Off,
}

/// Everything that the access log says about a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessEntry<'a> {
    /// When the request's head was complete.
    pub at: Timestamp,
    /// The listener's name.
    pub listener: &'a str,
    /// The client in the form that may be shown.
    pub client: &'a [u8],
    /// The method; empty if the head never became a request, so that little more than the sender and the reason is
    /// known.
    pub method: &'a [u8],
    /// The host asked for; empty if there was none.
    pub host: &'a [u8],
    /// The path, without its query.
    pub path: &'a [u8],
    /// The version of HTTP.
    pub protocol: &'a str,
    /// The version of TLS, if the connection is encrypted.
    pub tls_version: Option<&'a str>,
    /// The client's `User-Agent`; empty if it sent none.
    pub user_agent: &'a [u8],
    /// The route's name, if one matched.
    pub route: Option<&'a str>,
    /// The status; `None` if the client left before it was answered.
    pub status: Option<u16>,
    /// What went wrong, if anything did.
    pub reason: Option<Reason>,
    /// Seconds after which the client was told to try again.
    pub retry_after_secs: Option<u64>,
    /// The endpoint to which the request was last sent, or could not be sent; `None` if there was none.
    pub endpoint: Option<&'a str>,
    /// How many attempts there were to send the request to an endpoint.
    pub attempts: Option<u32>,
    /// Why the endpoint or the connection failed, or why no endpoint could be asked.
    pub cause: Option<&'a str>,
    /// What each policy of the route did, in order.
    pub policies: &'a [PolicyEntry<'a>],
    /// The quotas that refused, or would have, in the order of their policies.
    pub refusing: &'a [RefusingEntry<'a>],
    /// Units of the quota that refused, otherwise of the one with the smallest share left; `None` if that is credits.
    pub limit: Option<u64>,
    /// Units left in that quota.
    pub remaining: Option<u64>,
    /// Why the response did not report the cost, if it should have.
    pub cost_missing: Option<MissingCost>,
    /// Whether the reported cost was above `max_cost`.
    pub is_cost_capped: bool,
    /// Time from the end of the request's head to the end of the response, in microseconds.
    pub duration_us: u64,
    /// Time from the beginning of the first attempt to the head of the upstream's response, in microseconds.
    pub upstream_us: Option<u64>,
    /// How long the request was delayed, in microseconds.
    pub delayed_us: Option<u64>,
    /// Bytes of the request's body that arrived.
    pub received_bytes: u64,
    /// Bytes of the response's body that were sent.
    pub sent_bytes: u64,
    /// Whether a decision was made without the store that should have made it.
    pub is_degraded: bool,
    /// The request's id; empty if it has none.
    pub request_id: &'a [u8],
    /// Id of the trace that the request is part of; empty if it is part of none.
    pub trace_id: &'a [u8],
}

/// What the access log says about a policy.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry<'a> {
    /// Name of the policy.
    pub name: &'a str,
    /// What the policy did.
    pub outcome: PolicyOutcome,
    /// The partition whose quota is counted, in the form that may be shown; empty if that is the client's address for
    /// all policies.
    pub partition: &'a str,
    /// The override that matched, in the form that may be shown; empty if none did.
    pub tier: &'a str,
    /// Units that the request was expected to cost when it was decided.
    pub cost: u64,
    /// Units that the request was charged in the end.
    pub charged: u64,
}

/// A quota that refused, or would have.
#[derive(Clone, Copy, Debug)]
pub struct RefusingEntry<'a> {
    /// Index of the quota's policy among those of the entry.
    pub policy: usize,
    /// Name of the quota, which begins with its policy's.
    pub quota: &'a str,
    /// Whether the quota is a candidate, tried beside the policy's own.
    pub is_candidate: bool,
}

/// A worker's end of the access log.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    block: RefCell<Block>,
}

impl Writer {
    /// Makes a worker's writer.
    pub fn new(output: Output) -> Self {
        Self {
            output,
            block: RefCell::new(empty_block()),
        }
    }

    /// Writes a request's line, if `access` includes it.
    pub fn record(&self, access: AccessLog, format: LogFormat, entry: &AccessEntry<'_>) {
        if !entry.is_wanted(access) {
            return;
        }
        let mut block = self.block.borrow_mut();
        entry.write(&mut block.bytes, format);
        block.lines += 1;
        if block.bytes.len() >= BLOCK_BYTES {
            self.output.access(block.replace_with_empty());
        }
    }

    /// Hands over the lines gathered so far; called a few times a second and at the worker's end.
    pub fn flush(&self) {
        let mut block = self.block.borrow_mut();
        if block.lines > 0 {
            self.output.access(block.replace_with_empty());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.flush();
    }
}

impl AccessEntry<'_> {
    /// Whether the access log includes this request.
    fn is_wanted(&self, access: AccessLog) -> bool {
        match access {
            AccessLog::All => true,
            AccessLog::Refused => self.reason.is_some_and(Reason::is_refusal),
            AccessLog::Off => false,
        }
    }

    /// Adds the entry's line to `out`.
    pub fn write(&self, out: &mut Vec<u8>, format: LogFormat) {
        let mut line = LogLine::new(out, format, self.at);
        line.text(key!("listener"), self.listener.as_bytes());
        line.text(key!("client"), self.client);
        let is_request = !self.method.is_empty();
        if is_request {
            line.text(key!("method"), self.method);
            line.text(key!("host"), self.host);
            line.long_text(key!("path"), self.path);
            line.text(key!("protocol"), self.protocol.as_bytes());
        }
        line.optional_text(key!("tls_version"), self.tls_version);
        line.text_unless_empty(key!("user_agent"), self.user_agent);
        line.optional_text(key!("route"), self.route);
        line.optional_number(key!("status"), self.status.map(u64::from));
        line.optional_text(key!("reason"), self.reason.map(Reason::word));
        line.optional_text(
            key!("fault"),
            self.reason.map(|reason| reason.fault().word()),
        );
        line.optional_number(key!("retry_after"), self.retry_after_secs);
        line.optional_text(key!("endpoint"), self.endpoint);
        let attempts = self.attempts.filter(|attempts| *attempts > 0);
        line.optional_number(key!("attempts"), attempts.map(u64::from));
        line.optional_text(key!("cause"), self.cause);
        if !self.policies.is_empty() {
            self.write_policies(&mut line);
        }
        line.optional_number(key!("limit"), self.limit);
        line.optional_number(key!("remaining"), self.remaining);
        line.optional_text(
            key!("cost_missing"),
            self.cost_missing.map(MissingCost::word),
        );
        if self.is_cost_capped {
            line.truth(key!("cost_capped"));
        }
        if is_request {
            line.number(key!("duration_us"), self.duration_us);
            line.optional_number(key!("upstream_us"), self.upstream_us);
            line.optional_number(key!("delayed_us"), self.delayed_us);
            line.number(key!("received_bytes"), self.received_bytes);
            line.number(key!("sent_bytes"), self.sent_bytes);
        }
        if self.is_degraded {
            line.truth(key!("degraded"));
        }
        line.text_unless_empty(key!("request_id"), self.request_id);
        line.text_unless_empty(key!("trace_id"), self.trace_id);
        line.end();
    }

    /// Adds what the policies did. Lists that have an item for each policy are in the same order.
    fn write_policies(&self, line: &mut LogLine<'_>) {
        let policies = self.policies;
        line.list(key!("policies"), policies.iter().map(|one| one.name));
        line.text(key!("decision"), self.decision().word().as_bytes());
        if policies.iter().any(|one| !one.partition.is_empty()) {
            line.list(key!("partitions"), policies.iter().map(|one| one.partition));
        }
        if policies.iter().any(|one| !one.tier.is_empty()) {
            line.list(key!("tiers"), policies.iter().map(|one| one.tier));
        }
        line.numbers(key!("costs"), policies.iter().map(|one| one.cost));
        line.numbers(key!("charged"), policies.iter().map(|one| one.charged));
        for (outcome, key) in [
            (PolicyOutcome::Refused, key!("refused_by")),
            (PolicyOutcome::Blocked, key!("blocked_by")),
            (PolicyOutcome::Unidentified, key!("unidentified_by")),
            (PolicyOutcome::Marked, key!("marked_by")),
            (PolicyOutcome::ShadowRefused, key!("shadow_refused_by")),
        ] {
            if policies.iter().any(|one| one.outcome == outcome) {
                line.list(key, self.refusing(outcome));
            }
        }
        let candidates = self.refusing.iter().filter(|one| one.is_candidate);
        if candidates.clone().next().is_some() {
            line.list(
                key!("candidate_refused_by"),
                candidates.map(|one| one.quota),
            );
        }
    }

    /// Yields what refused under policies with this outcome: quotas, or the policy itself if none of its quotas did.
    fn refusing(&self, outcome: PolicyOutcome) -> impl Iterator<Item = &str> {
        let with =
            (self.policies.iter().enumerate()).filter(move |(_, one)| one.outcome == outcome);
        with.flat_map(|(index, policy)| {
            let is_own = move |one: &&RefusingEntry<'_>| one.policy == index && !one.is_candidate;
            let mut quotas = self.refusing.iter().filter(is_own).map(|one| one.quota);
            let first = quotas.next().unwrap_or(policy.name);
            [first].into_iter().chain(quotas)
        })
    }

    /// Returns what the policies did together: refused if one refused, unanswered if one could not be asked.
    fn decision(&self) -> PolicyOutcome {
        let any = |wanted: &PolicyOutcome| self.policies.iter().any(|one| one.outcome == *wanted);
        let decisive = [
            PolicyOutcome::Refused,
            PolicyOutcome::Blocked,
            PolicyOutcome::Unidentified,
            PolicyOutcome::Unanswered,
        ];
        let is_skipped = |one: &PolicyEntry<'_>| one.outcome == PolicyOutcome::Skipped;
        match decisive.into_iter().find(any) {
            Some(outcome) => outcome,
            None if self.policies.iter().all(is_skipped) => PolicyOutcome::Skipped,
            None => PolicyOutcome::Admitted,
        }
    }
}

impl Block {
    fn replace_with_empty(&mut self) -> Self {
        std::mem::replace(self, empty_block())
    }
}

fn empty_block() -> Block {
    Block {
        bytes: Vec::with_capacity(BLOCK_BYTES + LINE_BYTES),
        lines: 0,
    }
}

/// Bytes at which a block is handed over.
const BLOCK_BYTES: usize = 8 * 1024;

/// Room for one more ordinary line, so that a block is allocated once.
const LINE_BYTES: usize = 2 * 1024;

#[cfg(test)]
mod tests;
