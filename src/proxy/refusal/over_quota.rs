//! The refusal of a request that is over a quota, which comes far more often than the others.

use bytes::Bytes;
use http::StatusCode;

use super::dialect::Grpc;
use super::{Afterwards, PROBLEM_JSON, Page, Refusal};
use crate::chance;
use crate::clock::Micros;
use crate::fault::Reason;
use crate::limit::Retry;
use crate::snapshot::{Jitter, RefusalStyle};

impl Refusal {
    /// A policy's quota is used up.
    ///
    /// `retry` is the verdict's; `violated` yields the refusing quotas' names as structured-field
    /// strings (`PolicyQuota::item`), quotes included, in the route's order. `style` is what the first
    /// of their policies says of its refusals, if one is known.
    pub fn quota_exceeded<'q>(
        retry: Retry,
        violated: impl Iterator<Item = &'q str> + Clone,
        style: Option<&RefusalStyle>,
    ) -> Self {
        let default = RefusalStyle::default();
        let style = style.unwrap_or(&default);
        let retry_after_secs = match retry {
            Retry::After(retry) => Some(later(retry, style.retry_jitter).secs_ceil().max(1)),
            Retry::Never => None,
        };
        let (body, content_type) = match &style.page {
            Some(page) => (page.body.clone(), page.content_type.clone()),
            None => (violations(style.status, violated, ""), PROBLEM_JSON),
        };
        Refusal {
            page: &QUOTA_EXCEEDED,
            status: style.status,
            retry_after_secs,
            challenge: None,
            body,
            content_type,
        }
    }

    /// A quota can never hold what the request reserves; `detail` says so.
    pub fn never_fits<'q>(
        violated: impl Iterator<Item = &'q str> + Clone,
        style: Option<&RefusalStyle>,
        detail: &str,
    ) -> Self {
        let status = style.map_or(StatusCode::TOO_MANY_REQUESTS, |style| style.status);
        let refusal = Self::quota_exceeded(Retry::Never, violated.clone(), style);
        let body = match style.and_then(|style| style.page.as_ref()) {
            Some(_) => refusal.body,
            None => violations(status, violated, detail),
        };
        Self { body, ..refusal }
    }
}

/// Makes a wait longer by chance.
fn later(retry: Micros, jitter: Jitter) -> Micros {
    match jitter.most(retry) {
        Micros(0) => retry,
        Micros(most) => Micros(retry.0.saturating_add(chance::below(most + 1))),
    }
}

/// Renders the body of a refusal that names the violated policies; `detail` is printable ASCII without `"`
/// and `\`.
fn violations<'q>(
    status: StatusCode,
    violated: impl Iterator<Item = &'q str> + Clone,
    detail: &str,
) -> Bytes {
    let list_bytes: usize = violated.clone().map(|item| item.len() + 1).sum();
    // Exactly as large as the body, so that it becomes `Bytes` without another allocation.
    let commas = list_bytes.min(1);
    let start = QUOTA_EXCEEDED.body;
    let list = BODY_LIST.len() + list_bytes - commas;
    let detail = (!detail.is_empty()).then_some([DETAIL, detail, DETAIL_END]);
    let detail_bytes: usize = detail.iter().flatten().map(|part| part.len()).sum();
    let bytes = start.len() + 3 + detail_bytes + list + BODY_END.len();
    let mut body = Vec::with_capacity(bytes);
    body.extend_from_slice(start.as_bytes());
    body.extend_from_slice(status.as_str().as_bytes());
    for part in detail.iter().flatten() {
        body.extend_from_slice(part.as_bytes());
    }
    body.extend_from_slice(BODY_LIST.as_bytes());
    for (index, item) in violated.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        // A structured-field string is ASCII and escapes as JSON does (RFC 9651, section 3.3.3).
        body.extend_from_slice(item.as_bytes());
    }
    body.extend_from_slice(BODY_END.as_bytes());
    Bytes::from(body)
}

/// Types and titles: draft-ietf-httpapi-ratelimit-headers, "Problem Types".
static QUOTA_EXCEEDED: Page = Page {
    reason: Reason::QuotaExceeded,
    status: StatusCode::TOO_MANY_REQUESTS,
    connection: Afterwards::Keep,
    body: concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""title":"Request cannot be satisfied as assigned quota has been exceeded","#,
        r#""status":"#,
    ),
    grpc: Some(Grpc {
        status: "8",
        message: "Request cannot be satisfied as assigned quota has been exceeded",
    }),
};

/// What stands around the detail, if there is one.
const DETAIL: &str = r#","detail":""#;
const DETAIL_END: &str = "\"";

/// What stands before the violated policies.
const BODY_LIST: &str = r#","violated-policies":["#;
const BODY_END: &str = "]}\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_rendered_into_its_exact_size() {
        for violated in [&[][..], &["\"a\""], &["\"a\"", "\"b\""]] {
            let refusal = Refusal::quota_exceeded(Retry::Never, violated.iter().copied(), None);
            let (start, list) = (QUOTA_EXCEEDED.body, violated.join(","));
            let expected = format!("{start}429,\"violated-policies\":[{list}]}}\n");
            assert_eq!(refusal.body, expected);
        }
    }
}
