//! Limit headers: what a client learns of its quotas with every answer.
//!
//! `RateLimit-Policy` and `RateLimit` are structured-field lists (RFC 9651;
//! draft-ietf-httpapi-ratelimit-headers), one item per quota that enforces or marks and was counted. An
//! upstream's own items stay; the gateway's follow as a further field line of the same list.
//! `X-RateLimit-*` speak of one quota, the one with the smallest share left, and replace the
//! upstream's, because they cannot be lists.
//!
//! The snapshot holds names and policies in rendered form, so each field is put together in one reused
//! buffer. A value per route, shared by all workers, would save nothing: every core would write the
//! cache line of its reference count.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};

use super::wire::unindexed;
use crate::limiter::{LimitInfo, tightest};
use crate::snapshot::RateLimitHeaders;

/// Sets the limit headers of an answer; sets none if there is nothing to tell.
///
/// `buffer` is scratch space, reused so that it is allocated once per worker.
pub fn annotate<'s>(
    headers: &mut HeaderMap,
    style: RateLimitHeaders,
    infos: impl Iterator<Item = LimitInfo<'s>> + Clone,
    buffer: &mut Vec<u8>,
) {
    if matches!(style, RateLimitHeaders::Ietf | RateLimitHeaders::Both) {
        let policies = list_value(buffer, |list| {
            for item in infos
                .clone()
                .filter_map(|info| info.quota.items.policy_item())
            {
                list.extend_from_slice(b", ");
                list.extend_from_slice(item.as_bytes());
            }
        });
        if let Some(policies) = policies {
            headers.append(RATELIMIT_POLICY, policies);
        }
        let limits = list_value(buffer, |list| {
            infos.clone().for_each(|info| write_item(&info, list));
        });
        if let Some(limits) = limits {
            headers.append(RATELIMIT, unindexed(limits));
        }
    }
    if matches!(style, RateLimitHeaders::X | RateLimitHeaders::Both)
        && let Some(tightest) = tightest(infos)
    {
        let reset_secs = tightest.decision.reset.secs_ceil();
        headers.insert(X_LIMIT, HeaderValue::from(tightest.quota.quota.limit));
        let remaining = HeaderValue::from(tightest.decision.remaining);
        headers.insert(X_REMAINING, unindexed(remaining));
        headers.insert(X_RESET, HeaderValue::from(reset_secs));
    }
}

/// Lets scripts of other sites read the limit fields of an answer that they may read at all.
///
/// An answer without CORS fields stays without (Fetch, "HTTP extensions").
pub fn expose(headers: &mut HeaderMap, buffer: &mut Vec<u8>) {
    if !headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        return;
    }
    let exposed = headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS);
    let is_exposed = |name: &str| {
        let mut members = exposed
            .iter()
            .flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
        members.any(|member| member.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
    };
    // If credentials are allowed, `*` is no wildcard but the name of a field.
    if is_exposed("*") && !headers.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS) {
        return;
    }
    let names = list_value(buffer, |list| {
        for name in [
            RATELIMIT_POLICY,
            RATELIMIT,
            X_LIMIT,
            X_REMAINING,
            X_RESET,
            RETRY_AFTER,
        ] {
            if headers.contains_key(&name) && !is_exposed(name.as_str()) {
                list.extend_from_slice(b", ");
                list.extend_from_slice(name.as_str().as_bytes());
            }
        }
    });
    if let Some(names) = names {
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, names);
    }
}

/// Appends `, "name";r=42;t=17`; `t` is left out if the quota is whole, or its units do not come back with time.
fn write_item(info: &LimitInfo<'_>, list: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    list.extend_from_slice(b", ");
    list.extend_from_slice(info.quota.items.name().as_bytes());
    list.extend_from_slice(b";r=");
    let remaining = info.decision.remaining.min(SF_INTEGER_MAX);
    list.extend_from_slice(digits.format(remaining).as_bytes());
    if let Some(next) = info.decision.next {
        list.extend_from_slice(b";t=");
        list.extend_from_slice(digits.format(next.secs_ceil()).as_bytes());
    }
}

/// Returns the value of a list whose members `write` appends to the buffer, each after `", "`; none if it is empty.
fn list_value(buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Option<HeaderValue> {
    buffer.clear();
    write(buffer);
    let members = buffer.get(2..).filter(|members| !members.is_empty())?;
    // Items are rendered as ASCII when the configuration is compiled. If one could not be part of a
    // field's value after all, the field would be left out rather than the request ended.
    HeaderValue::from_bytes(members).ok()
}

/// The largest integer of a structured field (RFC 9651, section 3.3.1); a saturated counter is larger.
pub(super) const SF_INTEGER_MAX: u64 = 999_999_999_999_999;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Micros;
    use crate::limit::quota::COUNT_MAX;
    use crate::limit::{Algorithm, Decision, Retry};
    use crate::snapshot::PolicyQuota;
    use sfv::{BareItem, List, ListEntry, Parser};

    fn decision(remaining: u64, next: Option<Micros>, reset: Micros) -> Decision {
        Decision {
            admit: true,
            remaining,
            debt: 0,
            next,
            reset,
            retry: Retry::NOW,
            wait: Micros(0),
        }
    }

    fn annotated(style: RateLimitHeaders, infos: &[LimitInfo<'_>]) -> Vec<(String, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(RATELIMIT, HeaderValue::from_static(r#""origin";r=5"#));
        headers.insert(X_LIMIT, HeaderValue::from_static("5"));
        annotate(&mut headers, style, infos.iter().copied(), &mut Vec::new());
        let texts = headers.iter().map(|(name, value)| {
            let value = value.to_str().expect("our values are ASCII");
            (name.to_string(), value.to_owned())
        });
        texts.collect()
    }

    fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        (pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
        .collect()
    }

    #[test]
    fn styles_show_what_they_say_and_keep_the_upstreams_items() {
        let (a, b) = (
            PolicyQuota::named("a", 100, 60),
            PolicyQuota::named("b:2s", 10, 2),
        );
        let infos = [
            LimitInfo {
                quota: &a,
                decision: decision(42, Some(Micros(16_000_001)), Micros(59_000_001)),
            },
            LimitInfo {
                quota: &b,
                decision: decision(4, None, Micros(0)),
            },
        ];
        let policies = r#""a";q=100;w=60, "b:2s";q=10;w=2"#;
        let origin = ("ratelimit", r#""origin";r=5"#);
        let ours = ("ratelimit", r#""a";r=42;t=17, "b:2s";r=4"#);
        let ietf = [
            origin,
            ours,
            ("x-ratelimit-limit", "5"),
            ("ratelimit-policy", policies),
        ];
        assert_eq!(annotated(RateLimitHeaders::Ietf, &infos), fields(&ietf));
        let x = [
            origin,
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "4"),
            ("x-ratelimit-reset", "0"),
        ];
        assert_eq!(annotated(RateLimitHeaders::X, &infos), fields(&x));
        let both = [
            origin,
            ours,
            ("x-ratelimit-limit", "10"),
            ("ratelimit-policy", policies),
            ("x-ratelimit-remaining", "4"),
            ("x-ratelimit-reset", "0"),
        ];
        assert_eq!(annotated(RateLimitHeaders::Both, &infos), fields(&both));
        let off = [origin, ("x-ratelimit-limit", "5")];
        assert_eq!(annotated(RateLimitHeaders::Off, &infos), fields(&off));
        assert_eq!(annotated(RateLimitHeaders::Both, &[]), fields(&off));
    }

    #[test]
    fn values_that_differ_in_every_response_are_never_indexed() {
        let quota = PolicyQuota::named("a", 100, 60);
        let decision = decision(42, Some(Micros(16_000_001)), Micros(59_000_001));
        let infos = [LimitInfo {
            quota: &quota,
            decision,
        }];
        let mut headers = HeaderMap::new();
        let style = RateLimitHeaders::Both;
        annotate(&mut headers, style, infos.iter().copied(), &mut Vec::new());
        for (name, value) in &headers {
            let differs = [RATELIMIT, X_REMAINING].contains(name);
            assert_eq!(value.is_sensitive(), differs, "{name}");
        }
        assert_eq!(headers.len(), 5);
    }

    #[test]
    fn tightest_is_the_smallest_share_of_what_a_quota_can_hold() {
        let [wide, narrow] =
            [("wide", 1000), ("narrow", 10)].map(|(name, q)| PolicyQuota::named(name, q, 60));
        let mut bursty = PolicyQuota::named("bursty", 10, 60);
        bursty.quota.algorithm = Algorithm::Gcra { burst: 100 };
        for (left, expected) in [
            ([(&wide, 499), (&narrow, 5)], &wide),
            ([(&wide, 501), (&narrow, 5)], &narrow),
            ([(&narrow, 5), (&wide, 500)], &narrow),
            ([(&narrow, 5), (&bursty, 49)], &bursty),
        ] {
            let infos = left.map(|(quota, left)| LimitInfo {
                quota,
                decision: decision(left, None, Micros(0)),
            });
            let found = tightest(infos.into_iter()).map(|infos| infos.quota.items.name());
            assert_eq!(found, Some(expected.items.name()));
        }
        assert!(tightest([].into_iter()).is_none());
    }

    #[test]
    fn fields_are_structured_field_lists_even_at_the_extremes() {
        let (a, b) = (
            PolicyQuota::named("a", 100, 60),
            PolicyQuota::named("b", COUNT_MAX, 60),
        );
        let infos = [
            LimitInfo {
                quota: &a,
                decision: decision(0, Some(Micros(1)), Micros(1)),
            },
            LimitInfo {
                quota: &b,
                decision: decision(COUNT_MAX, Some(Micros(u64::MAX)), Micros(1)),
            },
        ];
        let fields = annotated(RateLimitHeaders::Ietf, &infos);
        let lines: Vec<&str> = (fields.iter().filter(|(name, _)| name == "ratelimit"))
            .map(|(_, value)| &**value)
            .collect();
        let combined = lines.join(", ");
        let list = Parser::new(&combined).parse::<List>().expect("a list");
        let members: Vec<(String, Vec<(String, i64)>)> = list.iter().map(member).collect();
        let integer = |key: &str, value| (key.to_owned(), value);
        assert_eq!(
            members,
            [
                ("origin".to_owned(), vec![integer("r", 5)]),
                ("a".to_owned(), vec![integer("r", 0), integer("t", 1)]),
                (
                    "b".to_owned(),
                    vec![
                        integer("r", 999_999_999_999_999),
                        integer("t", 18_446_744_073_710)
                    ]
                ),
            ]
        );
    }

    /// Reads a member as a name and its integer parameters.
    fn member(entry: &ListEntry) -> (String, Vec<(String, i64)>) {
        let ListEntry::Item(item) = entry else {
            panic!("an item, not an inner list: {entry:?}")
        };
        let BareItem::String(name) = &item.bare_item else {
            panic!("a string: {item:?}")
        };
        let params = item.params.iter().map(|(key, value)| match value {
            BareItem::Integer(value) => (key.to_string(), i64::from(*value)),
            _ => panic!("an integer: {value:?}"),
        });
        (name.to_string(), params.collect())
    }
}
