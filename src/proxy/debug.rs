//! `Tollgate-Decision`: tells callers in `debug_from` how their request was decided.
//!
//! A structured-field dictionary (RFC 9651): the route, whether the decision was made without Redis, and an inner list of
//! the policies, with an item for each of their quotas that refuses, marks or admits:
//!
//! ```text
//! route="/v1/*", policies=("per-key";outcome=admitted;cost=1;quota="100 per 1m";r=99;t=36 "login";outcome=skipped)
//! ```

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::annotate::SF_INTEGER_MAX;
use super::exchange::Exchange;
use crate::limit::Retry;
use crate::limiter::{Decided, LimitInfo, PolicyResult};
use crate::request;
use crate::snapshot::{Route, Snapshot};

/// Whether a client is in `debug_from`, and so may see how its requests are decided.
pub(super) fn is_debugged(snapshot: &Snapshot, client: Option<IpAddr>) -> bool {
    let networks = &snapshot.general.debug_from;
    client.is_some_and(|address| request::is_in(address, networks))
}

/// Sets `Tollgate-Decision`.
pub(super) fn set_decision(headers: &mut HeaderMap, exchange: &Exchange, buffer: &mut Vec<u8>) {
    buffer.clear();
    let snapshot = &exchange.record.live.snapshot;
    write(snapshot, exchange.record.route(), &exchange.decided, buffer);
    let value = HeaderValue::from_bytes(buffer).expect("it is printable ASCII");
    headers.insert(TOLLGATE_DECISION, value);
}

fn write(snapshot: &Snapshot, route: Option<&Route>, decided: &Decided, out: &mut Vec<u8>) {
    if let Some(route) = route {
        out.extend_from_slice(b"route=");
        write_string(&route.name, out);
        out.extend_from_slice(b", ");
    }
    if decided.is_degraded {
        out.extend_from_slice(b"degraded, ");
    }
    out.extend_from_slice(b"policies=(");
    let mut is_first = true;
    for (of, policy) in decided.policies.iter().enumerate() {
        let quotas = decided.infos_of(snapshot, of).map(Some);
        let without_quota = decided.infos_of(snapshot, of).next().is_none();
        for quota in quotas.chain(without_quota.then_some(None)) {
            if out.len() > LENGTH_MAX {
                out.extend_from_slice(b");truncated");
                return;
            }
            if !std::mem::take(&mut is_first) {
                out.push(b' ');
            }
            write_policy(snapshot, decided, policy, out);
            if let Some(quota) = quota {
                write_quota(&snapshot.policies[policy.policy].name, &quota, out);
            }
        }
    }
    out.push(b')');
}

fn write_policy(snapshot: &Snapshot, decided: &Decided, policy: &PolicyResult, out: &mut Vec<u8>) {
    write_string(&snapshot.policies[policy.policy].name, out);
    out.extend_from_slice(b";outcome=");
    out.extend_from_slice(policy.outcome.word().as_bytes());
    write_integer(b";cost=", policy.asked, out);
    let tier = decided.tier(policy);
    if !tier.is_empty() {
        out.extend_from_slice(b";tier=");
        write_string(tier, out);
    }
}

fn write_quota(policy: &str, info: &LimitInfo<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b";quota=");
    write_string(info.quota.short_name(policy), out);
    write_integer(b";r=", info.decision.remaining, out);
    if let Some(next) = info.decision.next {
        write_integer(b";t=", next.secs_ceil(), out);
    }
    if let (false, Retry::After(retry)) = (info.decision.admit, info.decision.retry) {
        write_integer(b";retry=", retry.secs_ceil(), out);
    }
}

/// Writes a structured-field string; what is not printable ASCII becomes a question mark.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        match u8::try_from(character) {
            Ok(byte @ (b'"' | b'\\')) => out.extend_from_slice(&[b'\\', byte]),
            Ok(byte @ b' '..=b'~') => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

fn write_integer(name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    let value = value.min(SF_INTEGER_MAX);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// After this many bytes, no more items are written: clients and proxies bound a head, some at 8 KiB.
const LENGTH_MAX: usize = 4_096;

const TOLLGATE_DECISION: HeaderName = HeaderName::from_static("tollgate-decision");
