//! The refusals as a table, and their bodies.

use super::*;
use crate::limit::Retry;
use crate::metrics::is_counted;
use crate::snapshot::PolicyQuota;
use std::fmt::Write as _;

#[test]
fn every_body_is_json_that_repeats_its_status() {
    let constant = CONSTANT.iter().map(|refusal| refusal());
    let over = OverQuota {
        retry: Retry::NOW,
        policy: None,
        violated: &[&PolicyQuota::named("a", 1, 1)],
        is_punished: false,
        too_large: Some("a: reserves 2 requests, quota 1"),
    };
    let others = [
        Refusal::delayed_full(),
        Refusal::bodies_full(),
        Refusal::upstream_full(),
        Refusal::no_descriptors(),
        Refusal::unidentified("per-key", Challenge::ApiKey),
        Refusal::blocked("per-key"),
        Refusal::bad_cost("per-key"),
        Refusal::unknown_price("per-key"),
        Refusal::limiter_unavailable(Micros(0)),
        Refusal::quota_exceeded(&over),
        Refusal::quota_exceeded(&OverQuota {
            violated: &[],
            ..over
        }),
    ];
    for refusal in constant.chain(others) {
        let body: serde_json::Value =
            serde_json::from_slice(&refusal.body).expect("a body is JSON");
        assert_eq!(body["status"], refusal.status().as_u16(), "{refusal:?}");
        assert!(refusal.reason().is_refusal(), "{refusal:?}");
        assert!(
            is_counted(refusal.status(), refusal.reason()),
            "{refusal:?}"
        );
    }
    // The lowest and highest status that a file may choose, and the two statuses of a head that is too large.
    for (status, reason) in [
        (400, Reason::QuotaExceeded),
        (599, Reason::QuotaExceeded),
        (414, Reason::HeadTooLarge),
        (431, Reason::HeadTooLarge),
    ] {
        let code = StatusCode::from_u16(status).expect("a status");
        assert!(is_counted(code, reason), "{status}");
    }
}

/// One line per refusal: its reason, fault, status and what becomes of the connection.
#[test]
fn refusals_are_the_documented_table() {
    let mut table = String::new();
    let reduced_capacity = [
        Refusal::limiter_unavailable(Micros(0)),
        Refusal::delayed_full(),
        Refusal::upstream_full(),
        Refusal::no_descriptors(),
    ];
    let constant = CONSTANT.iter().map(|refusal| refusal());
    for refusal in constant.chain(reduced_capacity) {
        let (reason, status) = (refusal.reason(), refusal.status().as_u16());
        let (fault, afterwards) = (reason.fault().word(), refusal.afterwards());
        writeln!(table, "{} {fault} {status} {afterwards:?}", reason.word())
            .expect("strings take everything");
    }
    assert_eq!(
        table,
        "bad_path client 400 Close\n\
         bad_method_case client 400 Close\n\
         bad_host client 400 Close\n\
         client_certificate_expired client 400 Close\n\
         client_certificate_untrusted client 400 Close\n\
         misdirected client 421 Keep\n\
         bad_framing client 400 Close\n\
         ambiguous_client client 400 Keep\n\
         bad_connection_field client 400 Keep\n\
         bad_usage_query client 400 Keep\n\
         usage_too_often client 429 Keep\n\
         no_route client 404 Keep\n\
         body_too_large client 413 Close\n\
         expectation_failed client 417 Close\n\
         method_unsupported client 501 Close\n\
         request_body_timeout client 408 Close\n\
         loop gateway 508 Keep\n\
         connect_failed upstream 502 Keep\n\
         bad_response upstream 502 Keep\n\
         response_timeout upstream 504 Keep\n\
         no_endpoint upstream 503 Keep\n\
         limiter_unavailable gateway 503 Keep\n\
         delayed_full gateway 503 Keep\n\
         upstream_full gateway 503 Keep\n\
         no_descriptors gateway 503 Keep\n"
    );
}
