//! Routes: the tree finds what trying each rule finds, and its parameters lie where the path has them.

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use tollgate::request;
use tollgate::request::path::normalise;
use tollgate::request::route::{HostPattern, Lookup, PathPattern, Router, Rule};

use super::{compared, lines, text};

/// The input: host, method and path, one per line.
pub fn holds(data: &[u8]) {
    let mut lines = lines(data);
    let (Some(host), Some(method), Some(path)) = (lines.next(), lines.next(), text(&mut lines))
    else {
        return;
    };
    let (Ok(host), Ok(method)) = (HeaderValue::from_bytes(host), Method::from_bytes(method)) else {
        return;
    };
    let headers = HeaderMap::from_iter([(HOST, host)]);
    let target = Uri::from_static("/");
    let Ok(host) = request::host(&target, &headers, Version::HTTP_11) else {
        return;
    };
    let Ok(path) = normalise(path) else { return };
    let request = Request {
        host: &host,
        method: method.as_str(),
        segments: segments(path.as_str()),
    };
    let expected = RULES.iter().position(|rule| request.matches(rule));
    ROUTER.with(|router| {
        let headers = HeaderMap::new();
        let found = match router.find(&host, &method, path.as_str(), &headers) {
            Lookup::Found(found) => found,
            Lookup::NoRoute => panic!("the last rule matches all"),
            Lookup::MethodCase => {
                assert!(!matches!(method.as_str(), "POST"), "{method}");
                assert!(
                    request
                        .segments
                        .first()
                        .is_some_and(|segment| segment.1 == "only")
                );
                assert!(method.as_str().eq_ignore_ascii_case("POST"));
                return;
            }
        };
        assert_eq!(Some(usize::from(found.route)), expected, "{request:?}");
        let hides = router.hides_another(&found, &host, &method, path.as_str(), &headers);
        assert_eq!(
            hides,
            request.hides_another(usize::from(found.route)),
            "{request:?}"
        );
        let names = RULES[usize::from(found.route)]
            .2
            .split('/')
            .filter(|part| !part.is_empty());
        for (pattern, (raw, _)) in names.zip(&request.segments) {
            let name = pattern
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            if let Some(name) = name {
                let value = router.param(&found, name, path.as_str());
                assert_eq!(value, Some(raw.as_str()), "{name} of {request:?}");
            }
        }
    });
}

/// Host, method, path, and whether the path may be in any case; rows are in the order of their rank.
type Row = (&'static str, &'static str, &'static str, bool);

/// Index of the only rule with a method.
const ONLY: usize = 4;

const RULES: &[Row] = &[
    ("api.example.com", "", "/login", false),
    ("*.example.com", "", "/login", false),
    ("", "", "/login", false),
    ("", "", "/a:b/{id}", false),
    ("", "POST", "/only", false),
    ("", "", "/Mixed/{id}/x", true),
    ("", "", "/items/{id}", false),
    ("", "", "/items/{id}/parts/{part}", false),
    ("", "", "/files/{name}/*", false),
    ("", "", "/*", false),
];

thread_local! {
    static ROUTER: Router = {
        let rules = RULES.iter().map(|&(host, method, path, case_insensitive)| Rule {
            path: PathPattern::parse(path).expect("good pattern"),
            host: (!host.is_empty()).then(|| HostPattern::parse(host).expect("good host")),
            methods: Method::from_bytes(method.as_bytes()).into_iter().collect(),
            headers: Vec::new(),
            case_insensitive,
        });
        Router::new(rules.collect()).expect("no ties")
    };
}

#[derive(Debug)]
struct Request<'r> {
    host: &'r str,
    method: &'r str,
    /// Each segment as it is in the path, and as it is compared.
    segments: Vec<(String, String)>,
}

impl Request<'_> {
    fn matches(&self, rule: &Row) -> bool {
        let &(host, method, ..) = rule;
        let host_matches = match host.strip_prefix('*') {
            Some(suffix) => self.host.ends_with(suffix),
            None => host.is_empty() || self.host == host,
        };
        host_matches && (method.is_empty() || self.method == method) && self.is_at(rule)
    }

    /// Whether an origin that takes encoded slashes for slashes sees the path of another route, which the path as it is
    /// does not match.
    fn hides_another(&self, found: usize) -> bool {
        let raw = self.segments.iter().map(|(raw, _)| raw.as_str());
        let path = raw.collect::<Vec<_>>().join("/");
        let decoded = Request {
            segments: segments(&path.replace("%2F", "/").replace("%5C", "/")),
            ..*self
        };
        let is_method_case = decoded.is_at(&RULES[ONLY])
            && self.method.eq_ignore_ascii_case("POST")
            && self.method != "POST";
        let other = RULES.iter().position(|rule| decoded.matches(rule));
        is_method_case || other.is_some_and(|other| other != found && !self.is_at(&RULES[other]))
    }

    /// Whether the path matches that of the rule.
    fn is_at(&self, &(_, _, path, any_case): &Row) -> bool {
        let pattern: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let fixed = pattern.len() - usize::from(pattern.last() == Some(&"*"));
        let length_matches = if fixed == pattern.len() {
            self.segments.len() == fixed
        } else {
            self.segments.len() >= fixed
        };
        let mut pairs = pattern[..fixed].iter().zip(&self.segments);
        let segments_match = pairs.all(|(pattern, (_, segment))| {
            pattern.starts_with('{')
                || pattern == segment
                || (any_case && pattern.eq_ignore_ascii_case(segment))
        });
        length_matches && segments_match
    }
}

fn segments(path: &str) -> Vec<(String, String)> {
    let names = path.split('/').filter(|part| !part.is_empty());
    names
        .map(|name| (name.to_owned(), compared(name)))
        .collect()
}
