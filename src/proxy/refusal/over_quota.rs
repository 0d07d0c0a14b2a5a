//! The refusal of a request that is over a quota, which comes far more often than the others.

use bytes::Bytes;
use http::StatusCode;

use super::dialect::Grpc;
use super::{Afterwards, PROBLEM_JSON, Page, Refusal};
use crate::chance;
use crate::clock::Micros;
use crate::fault::Reason;
use crate::limit::{Algorithm, Retry};
use crate::request::copied_value;
use crate::snapshot::{Jitter, PagePart, Policy, PolicyQuota, RefusalPage, RefusalStyle};

/// A request that is over a quota.
pub struct OverQuota<'q> {
    /// When the request would fit, as the verdict says.
    pub retry: Retry,
    /// The first policy that refuses, if it is known: its refusal style applies.
    pub policy: Option<&'q Policy>,
    /// The quotas that refuse, in the route's order.
    pub violated: &'q [&'q PolicyQuota],
    /// Whether a penalty of that policy runs, which this refusal may have begun.
    pub is_punished: bool,
    /// Text that names the quota that can never hold what the request reserves: printable ASCII without `"` and `\`.
    pub too_large: Option<&'q str>,
}

impl Refusal {
    /// A policy's quota is used up, or can never hold what the request reserves.
    pub fn quota_exceeded(over: &OverQuota<'_>) -> Self {
        let default = RefusalStyle::default();
        let style = over.policy.map_or(&default, |policy| &policy.refusal);
        let retry_after_secs = match over.retry {
            Retry::After(retry) => Some(later(retry, over.jitter(style)).secs_ceil().max(1)),
            Retry::Never => None,
        };
        let (body, content_type) = match &style.page {
            Some(page) => {
                let content_type = copied_value(&page.content_type);
                (over.fill(page, retry_after_secs), content_type)
            }
            None => (over.problem(style.status), PROBLEM_JSON),
        };
        Refusal {
            page: over.page(),
            status: style.status,
            retry_after_secs,
            challenge: None,
            body,
            content_type,
        }
    }
}

impl OverQuota<'_> {
    fn page(&self) -> &'static Page {
        if self.is_punished {
            &ABNORMAL_USAGE
        } else {
            &QUOTA_EXCEEDED
        }
    }

    /// Returns the most that chance adds to a wait. Without it, clients of calendar quotas would all return at once.
    fn jitter(&self, style: &RefusalStyle) -> Jitter {
        let is_calendar =
            |quota: &&PolicyQuota| matches!(quota.quota.algorithm, Algorithm::Calendar(_));
        style.retry_jitter.unwrap_or_else(|| {
            if self.violated.iter().any(is_calendar) {
                Jitter::Time(CALENDAR_JITTER)
            } else {
                Jitter::default()
            }
        })
    }

    /// Fills in a policy's own body. What is filled in has no character that JSON escapes.
    fn fill(&self, page: &RefusalPage, retry_after_secs: Option<u64>) -> Bytes {
        let mut body = Vec::new();
        let mut digits = itoa::Buffer::new();
        for part in &page.body {
            let known = match part {
                PagePart::Text(text) => text.as_bytes(),
                PagePart::Policy => self.policy.map_or("", |policy| &*policy.name).as_bytes(),
                PagePart::Reason => {
                    self.write_reason(&mut body);
                    continue;
                }
                PagePart::RetryAfter { never } => retry_after_secs
                    .map_or(*never, |secs| digits.format(secs))
                    .as_bytes(),
            };
            body.extend_from_slice(known);
        }
        Bytes::from(body)
    }

    fn write_reason(&self, body: &mut Vec<u8>) {
        match (self.too_large, self.violated.first()) {
            (Some(too_large), _) => body.extend_from_slice(too_large.as_bytes()),
            (None, Some(quota)) => {
                body.extend_from_slice(quota.log_name.as_bytes());
                let end: &[u8] = if quota.quota.is_penalty() {
                    b" runs"
                } else {
                    b" is used up"
                };
                body.extend_from_slice(end);
            }
            (None, None) => body.extend_from_slice(b"the quota is used up"),
        }
    }

    /// Renders the problem that names the violated policies.
    fn problem(&self, status: StatusCode) -> Bytes {
        let violated = self.violated.iter().map(|quota| quota.items.name());
        let list_bytes: usize = violated.clone().map(|item| item.len() + 1).sum();
        // Exactly as large as the body, so that it becomes `Bytes` without another allocation.
        let commas = list_bytes.min(1);
        let start = self.page().body;
        let list = BODY_LIST.len() + list_bytes - commas;
        let detail = self.too_large.map(|detail| [DETAIL, detail, DETAIL_END]);
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
}

/// Lengthens a wait by a random part of the jitter.
fn later(retry: Micros, jitter: Jitter) -> Micros {
    match jitter.most(retry) {
        Micros(0) => retry,
        Micros(most) => Micros(retry.0.saturating_add(chance::below(most + 1))),
    }
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

static ABNORMAL_USAGE: Page = Page {
    reason: Reason::QuotaExceeded,
    status: StatusCode::TOO_MANY_REQUESTS,
    connection: Afterwards::Keep,
    body: concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","#,
        r#""title":"Request not satisfied due to detection of abnormal request pattern","#,
        r#""status":"#,
    ),
    grpc: Some(Grpc {
        status: "8",
        message: "Request not satisfied due to detection of abnormal request pattern",
    }),
};

/// Most that chance adds to the waits of calendar quotas, if their policy does not say.
const CALENDAR_JITTER: Micros = Micros::from_secs(300);

/// What comes before and after the detail, if there is one.
const DETAIL: &str = r#","detail":""#;
const DETAIL_END: &str = "\"";

/// What comes before and after the violated policies.
const BODY_LIST: &str = r#","violated-policies":["#;
const BODY_END: &str = "]}\n";
