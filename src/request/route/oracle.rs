//! Compares the router with an oracle that sorts all rules by rank and tries each.

mod rank;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use smallvec::SmallVec;

use self::rank::Rank;
use super::pattern::{Element, PathShape};
use super::{Case, Found, HeaderMatch, HostPattern, Lookup, Mismatch, PathPattern, Router, Rule};
use crate::request::path;

const HOSTS: [&str; 5] = ["", "a.com", "b.a.com", "c.b.a.com", "x.org"];
const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "get", "PUT"];
const PATHS: [&str; 14] = [
    "/",
    "/a",
    "/a/",
    "/A",
    "/b",
    "/a/b",
    "/A/b/",
    "/a/B/c",
    "/b/b/b",
    "/c/a/b/c",
    "/a%3Ab",
    "/a:b/c",
    "/c/a%3Ab%2F",
    "/%20/b",
];
const HEADERS: [(&str, &str); 4] = [("x-a", "1"), ("x-a", "2"), ("x-a", "12"), ("x-b", "1")];

fn rule() -> impl Strategy<Value = Rule> {
    let hosts = vec![
        None,
        Some("a.com"),
        Some("*.a.com"),
        Some("*.com"),
        Some("*.b.a.com"),
    ];
    let segment = || select(vec!["a", "b", "A", "{x}", "a:b", "c"]);
    let path =
        (prop::collection::vec(segment(), 0..4), any::<bool>()).prop_map(|(segments, rest)| {
            let mut text = String::new();
            for (index, segment) in segments.iter().enumerate() {
                text += "/";
                text += &segment.replace('x', &format!("x{index}"));
            }
            text += if rest {
                "/*"
            } else if text.is_empty() {
                "/"
            } else {
                ""
            };
            PathPattern::parse(&text).expect("good pattern")
        });
    let headers = select(vec![
        vec![],
        vec![("x-a", None)],
        vec![("x-a", Some("1"))],
        vec![("x-a", Some("2"))],
        vec![("x-a", Some("re:1.*"))],
        vec![("x-a", Some("re:.*2"))],
        vec![("x-a", Some("1")), ("x-b", None)],
        vec![("x-a", Some("re:[12]*")), ("x-b", Some("re:1"))],
    ]);
    let path = prop_oneof![4 => path.prop_map(Ok), 1 => regex().prop_map(Err)];
    with_path(select(hosts), path, headers)
}

/// Makes one of many rules for few paths; the rules are so many that they are indexed.
fn crowded_rule() -> impl Strategy<Value = Rule> {
    let path = select(vec!["/a", "/b/*", "/*"])
        .prop_map(|text| PathPattern::parse(text).expect("good pattern"));
    let asked = |name| {
        select(vec![None, Some("1"), Some("2"), Some("3"), Some("re:.*2")])
            .prop_map(move |value| (name, value))
    };
    let headers = (asked("x-a"), asked("x-b"), 0..=2_usize)
        .prop_map(|(a, b, count)| [a, b].into_iter().take(count).collect());
    let path = prop_oneof![1 => path.prop_map(Ok), 1 => regex().prop_map(Err)];
    with_path(select(vec![None, None, None, Some("a.com")]), path, headers)
}

fn regex() -> impl Strategy<Value = &'static str> {
    let texts = [
        "/a.*",
        "/[ab]/b",
        ".*",
        "/A/B",
        "/[a-c]/B.*",
        "/c/a.+",
        "/./(a|b)/c",
        "/a:b/.*",
    ];
    select(texts.to_vec())
}

/// Makes a rule with a path: a pattern, or an expression that has yet to get the rule's case.
fn with_path(
    host: impl Strategy<Value = Option<&'static str>>,
    path: impl Strategy<Value = Result<PathPattern, &'static str>>,
    headers: impl Strategy<Value = Vec<(&'static str, Option<&'static str>)>>,
) -> impl Strategy<Value = Rule> {
    let methods = subsequence(METHODS.to_vec(), 0..3);
    (host, path, methods, headers, prop::bool::weighted(0.2)).prop_map(
        |(host, path, methods, headers, case_insensitive)| Rule {
            path: path.unwrap_or_else(|text| {
                let case = if case_insensitive {
                    Case::Any
                } else {
                    Case::Exact
                };
                PathPattern::regex(text, case).expect("good expression")
            }),
            host: host.map(|host| HostPattern::parse(host).expect("good host")),
            methods: methods.iter().map(|method| self::method(method)).collect(),
            headers: (headers.into_iter())
                .map(|(name, value)| {
                    let asked = HeaderMatch::parse(value.unwrap_or("*")).expect("good value");
                    (HeaderName::from_static(name), asked)
                })
                .collect(),
            case_insensitive,
        },
    )
}

fn method(text: &str) -> Method {
    Method::from_bytes(text.as_bytes()).expect("good method")
}

#[derive(Debug)]
struct Request {
    host: &'static str,
    method: Method,
    path: &'static str,
    headers: HeaderMap,
}

fn request() -> impl Strategy<Value = Request> {
    let headers = subsequence(HEADERS.to_vec(), 0..=2);
    (
        select(HOSTS.to_vec()),
        select(METHODS.to_vec()),
        select(PATHS.to_vec()),
        headers,
    )
        .prop_map(|(host, method, path, lines)| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(name, HeaderValue::from_static(value));
            }
            Request {
                host,
                method: self::method(method),
                path,
                headers,
            }
        })
}

/// Matches one rule with a request; only the elements of patterns are shared with the router's code.
fn matches(rule: &Rule, request: &Request) -> Lookup {
    let host_matches = rule.host.as_ref().is_none_or(|host| {
        if host.is_wildcard() {
            request.host.ends_with(&format!(".{}", host.name()))
        } else {
            request.host == host.name()
        }
    });
    let headers_match = rule.headers.iter().all(|(name, value)| {
        let lines: Vec<_> = request.headers.get_all(name).iter().collect();
        match value {
            HeaderMatch::Any => !lines.is_empty(),
            HeaderMatch::Value(value) => lines == [&**value],
            HeaderMatch::Regex(_) => matches!(lines[..], [line] if value.takes(line.as_bytes())),
        }
    });
    if !host_matches || !headers_match || !path_matches(rule, request.path) {
        return Lookup::NoRoute;
    }
    let named = |spelling: fn(&str) -> String| {
        let sent = spelling(request.method.as_str());
        (rule.methods.iter()).any(|named| {
            spelling(named.as_str()) == sent || (named == Method::GET && sent == spelling("HEAD"))
        })
    };
    if rule.methods.is_empty() || named(str::to_owned) {
        Lookup::Found(Found {
            route: 0.into(),
            params: SmallVec::new(),
        })
    } else if named(str::to_ascii_lowercase) {
        Lookup::MethodCase
    } else {
        Lookup::NoRoute
    }
}

fn path_matches(rule: &Rule, path: &str) -> bool {
    let path = path.replace("%3A", ":");
    let elements = match &rule.path.shape {
        PathShape::Elements(elements) => elements,
        PathShape::Regex(regex) => {
            let trimmed = path.trim_end_matches('/');
            return regex.matches(&path) || (!trimmed.is_empty() && regex.matches(trimmed));
        }
    };
    let segments: Vec<_> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let rest = elements.last() == Some(&Element::Rest);
    let fixed = elements.len() - usize::from(rest);
    (segments.len() == fixed || (rest && segments.len() > fixed))
        && elements
            .iter()
            .zip(segments)
            .all(|(element, segment)| match element {
                Element::Literal(text) if rule.case_insensitive => {
                    text.eq_ignore_ascii_case(segment)
                }
                Element::Literal(text) => **text == *segment,
                Element::Param | Element::Rest => true,
            })
}

/// Builds a router without the later rule of every tie.
fn router(mut rules: Vec<Rule>) -> (Router, Vec<Rule>) {
    if let Err(ties) = Router::new(rules.clone()) {
        let mut losers: Vec<_> = ties.iter().map(|tie| tie.second).collect();
        losers.sort_unstable();
        losers.dedup();
        losers
            .into_iter()
            .rev()
            .for_each(|loser| drop(rules.remove(loser)));
    }
    (
        Router::new(rules.clone()).expect("rules without ties"),
        rules,
    )
}

fn agrees_with_sorting_by_rank(
    rules: Vec<Rule>,
    requests: &[Request],
) -> Result<(), TestCaseError> {
    let (router, rules) = router(rules);
    let mut by_rank: Vec<_> = (0..rules.len()).collect();
    by_rank.sort_by_key(|&index| Rank::of(&rules[index], index));
    for request in requests {
        let expected = (by_rank.iter()).find_map(|&index| match matches(&rules[index], request) {
            Lookup::Found(_) => Some(Ok(index)),
            Lookup::MethodCase => Some(Err(Lookup::MethodCase)),
            Lookup::NoRoute => None,
        });
        let found = router.find(
            request.host,
            &request.method,
            request.path,
            &request.headers,
        );
        let found = match found {
            Lookup::Found(found) => Some(Ok(usize::from(found.route))),
            Lookup::NoRoute => None,
            Lookup::MethodCase => Some(Err(Lookup::MethodCase)),
        };
        prop_assert_eq!(found, expected, "{:?}", request);
        for rule in &rules {
            let expected = path_matches(rule, request.path);
            prop_assert_eq!(rule.takes_path(request.path), expected, "{:?}", rule);
            let (path, headers) = (path::comparable(request.path), &request.headers);
            let mismatch = rule.mismatch(request.host, &request.method, &path, headers);
            let expected = match matches(rule, request) {
                Lookup::Found(_) => mismatch == Mismatch::LessSpecific,
                Lookup::MethodCase => mismatch == Mismatch::MethodCase,
                Lookup::NoRoute => mismatch != Mismatch::LessSpecific,
            };
            prop_assert!(expected, "{:?} {:?} {:?}", mismatch, rule, request);
        }
    }
    Ok(())
}

fn have_ranks_of_their_own(rules: Vec<Rule>, requests: &[Request]) -> Result<(), TestCaseError> {
    let (_, rules) = router(rules);
    for request in requests {
        let mut ranks: Vec<_> = (rules.iter().enumerate())
            .filter(|(_, rule)| matches(rule, request) != Lookup::NoRoute)
            .map(|(index, rule)| (Rank::of(rule, index), rule))
            .collect();
        ranks.sort_by(|(a, _), (b, _)| a.cmp(b));
        let is_ordered = |pair: &[(Rank, &Rule)]| {
            let [(first, a), (second, b)] = pair else {
                return false;
            };
            first < second || differ_in_an_expression(a, b)
        };
        prop_assert!(ranks.windows(2).all(is_ordered), "{:?}", request);
    }
    Ok(())
}

/// Whether rules differ in expressions for one header alone, which the file's order decides.
fn differ_in_an_expression(a: &Rule, b: &Rule) -> bool {
    let differing: Vec<_> = (a.headers.iter().zip(&b.headers))
        .filter(|(one, other)| one != other)
        .collect();
    let is_one = matches!(
        differing[..],
        [((name, HeaderMatch::Regex(_)), (other, HeaderMatch::Regex(_)))] if name == other
    );
    let same = |methods: &[Method]| {
        let mut names: Vec<_> = methods.iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    is_one
        && a.headers.len() == b.headers.len()
        && same(&a.methods) == same(&b.methods)
        && a.case_insensitive == b.case_insensitive
        && a.path.is_like(&b.path)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The tree finds what sorting all rules by rank and trying each finds.
    #[test]
    fn the_tree_agrees_with_sorting_by_rank(
        rules in prop::collection::vec(rule(), 0..12),
        requests in prop::collection::vec(request(), 1..12),
    ) {
        agrees_with_sorting_by_rank(rules, &requests)?;
    }

    /// Rules of equal rank that both match one request are reported.
    #[test]
    fn rules_that_can_tie_are_reported(
        rules in prop::collection::vec(rule(), 2..6),
        requests in prop::collection::vec(request(), 1..40),
    ) {
        have_ranks_of_their_own(rules, &requests)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The tree also agrees if many rules share a path or are expressions.
    #[test]
    fn a_crowded_tree_agrees_with_sorting_by_rank(
        rules in prop::collection::vec(crowded_rule(), 24..40),
        requests in prop::collection::vec(request(), 1..12),
    ) {
        agrees_with_sorting_by_rank(rules.clone(), &requests)?;
        have_ranks_of_their_own(rules, &requests)?;
    }
}
