//! Which of two rules wins if both match a request, and which pairs can tie.

use std::cmp::Reverse;

use http::Method;

use super::header_match::HeaderMatch;
use super::rule::Rule;

/// How specific a rule is among those of the same host and path; the smaller rank wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankWithinPath {
    methods: MethodsRank,
    headers: Reverse<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MethodsRank {
    Given,
    All,
}

impl RankWithinPath {
    pub(super) fn of(rule: &Rule) -> Self {
        Self {
            methods: match rule.methods.as_slice() {
                [] => MethodsRank::All,
                _ => MethodsRank::Given,
            },
            headers: Reverse(rule.headers.len()),
        }
    }
}

impl Rule {
    /// Whether the rule takes requests with this method.
    pub(super) fn takes_method(&self, method: &Method) -> bool {
        let takes =
            |named: &Method| named == method || (named == Method::GET && method == Method::HEAD);
        self.methods.is_empty() || self.methods.iter().any(takes)
    }

    /// Whether the rule names a method that equals this one, apart from case. `GET` includes `HEAD`.
    pub(super) fn claims_method(&self, method: &Method) -> bool {
        self.methods.iter().any(|named| claims(named, method))
    }
}

/// Whether one request can match both of two rules of equal rank, and nothing decides which of them comes first. Their
/// hosts are the same, and their paths differ at most in case.
pub(super) fn ties(a: &Rule, b: &Rule) -> bool {
    overlap(a, b) && !are_ordered_by_file(a, b)
}

fn overlap(a: &Rule, b: &Rule) -> bool {
    let same_path = a.case_insensitive || b.case_insensitive || a.path.is_like(&b.path);
    same_path && methods_overlap(&a.methods, &b.methods) && headers_overlap(a, b)
}

/// Whether some method is in both lists; an empty list has every method.
pub(super) fn methods_overlap(a: &[Method], b: &[Method]) -> bool {
    let includes = |all: &[Method], method: &Method| all.iter().any(|m| claims(m, method));
    a.is_empty()
        || b.is_empty()
        || a.iter().any(|method| includes(b, method))
        || b.iter().any(|method| includes(a, method))
}

/// Whether a rule with the method `named` takes requests with `method`, or refuses them because of its case.
pub(super) fn claims(named: &Method, method: &Method) -> bool {
    let sent = method.as_str();
    sent.eq_ignore_ascii_case(named.as_str())
        || (named == Method::GET && sent.eq_ignore_ascii_case("HEAD"))
}

fn headers_overlap(a: &Rule, b: &Rule) -> bool {
    !a.headers.iter().any(|(name, asked)| {
        let mut others = b.headers.iter();
        others.any(|(other, also)| other == name && asked.excludes(also))
    })
}

/// Whether two rules with overlapping paths differ only in their expressions for one header. They are then tried in
/// file order.
fn are_ordered_by_file(a: &Rule, b: &Rule) -> bool {
    let has_all = |a: &[Method], b: &[Method]| a.iter().all(|method| b.contains(method));
    if a.case_insensitive != b.case_insensitive
        || !a.path.is_like(&b.path)
        || !has_all(&a.methods, &b.methods)
        || !has_all(&b.methods, &a.methods)
        || a.headers.len() != b.headers.len()
    {
        return false;
    }
    let mut differing = a.headers.iter().filter(|asked| !b.headers.contains(asked));
    let (Some((name, HeaderMatch::Regex(_))), None) = (differing.next(), differing.next()) else {
        return false;
    };
    let mut others = b.headers.iter();
    others.any(|(other, also)| other == name && matches!(also, HeaderMatch::Regex(_)))
}
