//! How the cost of a request is reported, and which answers count.

use std::ops::RangeInclusive;
use std::sync::Arc;

use http::{HeaderName, StatusCode};

use crate::cost::{BodyCost, BodyFormat, NumberSource, Pointers};

/// Where the cost of a request is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportedCost {
    /// A header field.
    Header(HeaderCost),
    /// The body of the answer.
    Body(BodyCost<NumberSource>),
}

/// A header field that reports a cost, and the bounds to which it is clamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCost {
    /// Who reports the cost.
    pub source: CostSource,
    /// The field that reports the cost, as a plain decimal.
    pub header: HeaderName,
    /// Units that are charged until a cost is reported.
    pub reserve: u64,
    /// Bounds to which a reported cost is clamped.
    pub bounds: RangeInclusive<u64>,
}

/// Whose header fields report a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// The client, with the request.
    Request,
    /// The upstream, with its answer.
    Response,
}

/// Which answers a policy counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedAnswers {
    /// Statuses that count; if the list is empty, all do.
    pub count_status: Vec<StatusRange>,
    /// Statuses for which the charge is given back.
    pub refund_status: Vec<StatusRange>,
    /// Whether the charge is given back if no connection to the upstream could be made.
    pub refund_connect: bool,
    /// Whether the charge is given back if the upstream did not respond in time.
    pub refund_timeout: bool,
}

/// A status, or a class of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// The lowest status.
    pub first: u16,
    /// The highest status.
    pub last: u16,
}

/// The fault that kept an upstream from answering, if any did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamFault {
    /// No connection could be made.
    Connect,
    /// The upstream did not answer in time.
    Timeout,
    /// Another fault, or none.
    Other,
}

impl ReportedCost {
    /// Returns the field in which `source` reports the cost, if it does.
    pub fn header_of(&self, source: CostSource) -> Option<&HeaderCost> {
        match self {
            Self::Header(header) if header.source == source => Some(header),
            Self::Header(_) | Self::Body(_) => None,
        }
    }

    /// Returns how bodies report the cost, if they do.
    pub fn body(&self) -> Option<&BodyCost<NumberSource>> {
        match self {
            Self::Header(_) => None,
            Self::Body(body) => Some(body),
        }
    }
}

impl CountedAnswers {
    /// Whether a request with this outcome counts.
    pub fn counts(&self, status: StatusCode, fault: UpstreamFault) -> bool {
        let is_in = |ranges: &[StatusRange]| ranges.iter().any(|range| range.has(status));
        let is_refunded = match fault {
            UpstreamFault::Connect => self.refund_connect,
            UpstreamFault::Timeout => self.refund_timeout,
            UpstreamFault::Other => false,
        };
        let is_counted = self.count_status.is_empty() || is_in(&self.count_status);
        is_counted && !is_refunded && !is_in(&self.refund_status)
    }
}

impl StatusRange {
    /// Whether a status is in the range.
    pub fn has(self, status: StatusCode) -> bool {
        (self.first..=self.last).contains(&status.as_u16())
    }
}

impl HeaderCost {
    /// Reads a reported cost: digits without a sign, a fraction or a leading zero, clamped to the bounds.
    pub fn read(&self, value: &[u8]) -> Option<u64> {
        let is_plain = !value.is_empty()
            && value.iter().all(u8::is_ascii_digit)
            && (value[0] != b'0' || value.len() == 1);
        if !is_plain {
            return None;
        }
        // A number that does not fit is above every bound.
        let reported = std::str::from_utf8(value).ok()?.parse().unwrap_or(u64::MAX);
        Some(reported.clamp(*self.bounds.start(), *self.bounds.end()))
    }
}

/// The numbers that the policies of a route read from bodies, all in one pass.
#[derive(Debug, PartialEq, Eq)]
pub struct RouteBodies {
    /// Where the numbers are in request bodies.
    pub request: Arc<Pointers>,
    /// Where the numbers are in answer bodies.
    pub response: Arc<Pointers>,
    /// Whether a policy must read request bodies before it decides.
    pub reads_requests: bool,
    /// The format in which answers are read; `None` means by their Content-Type.
    pub response_format: Option<BodyFormat>,
    /// The name of the event that ends a stream, if one does.
    pub stream_end: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_decimal_tells_a_cost() {
        let cost = HeaderCost {
            source: CostSource::Request,
            header: HeaderName::from_static("x-cost"),
            reserve: 1,
            bounds: 2..=1000,
        };
        for (value, reported) in [
            ("7", Some(7)),
            ("0", Some(2)),
            ("1", Some(2)),
            ("1000", Some(1000)),
            ("1000000000", Some(1000)),
            ("18446744073709551616", Some(1000)),
            ("", None),
            ("-1", None),
            ("+1", None),
            ("01", None),
            ("1.5", None),
            ("1e9", None),
            ("1, 1", None),
            (" 1", None),
            ("0x1", None),
            ("１", None),
        ] {
            assert_eq!(cost.read(value.as_bytes()), reported, "{value:?}");
        }
    }

    #[test]
    fn an_answer_counts_unless_the_policy_says_otherwise() {
        let range = |first, last| StatusRange { first, last };
        let login = CountedAnswers {
            count_status: vec![range(401, 401), range(403, 403)],
            ..CountedAnswers::default()
        };
        let fair = CountedAnswers {
            refund_status: vec![range(500, 599)],
            refund_connect: true,
            ..CountedAnswers::default()
        };
        let (connect, timeout) = (UpstreamFault::Connect, UpstreamFault::Timeout);
        let other = UpstreamFault::Other;
        for (answers, status, fault, counts) in [
            (&CountedAnswers::default(), 500, timeout, true),
            (&login, 401, other, true),
            (&login, 402, other, false),
            (&login, 200, other, false),
            (&login, 502, connect, false),
            (&fair, 200, other, true),
            (&fair, 499, other, true),
            (&fair, 500, other, false),
            (&fair, 400, connect, false),
            (&fair, 400, timeout, true),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(answers.counts(status, fault), counts, "{status} {fault:?}");
        }
    }
}
