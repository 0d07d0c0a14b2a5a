//! The routes that would get a route's requests if it did not exist.
//!
//! A rule is broader than another if it matches every host, path and header that the other matches, and comes after it:
//! without the other rule, it would get the other's requests whose methods it takes. An expression is known to be
//! broader only than a literal path that it matches.

use http::{HeaderMap, HeaderValue, Method};

use super::Router;
use super::rank;
use super::rule::Rule;
use super::tree::RouteTree;
use crate::index::RouteIndex;

impl Router {
    /// Returns the routes that would get the requests of `route` if it were not there, most specific first.
    pub fn next_broader(&self, route: RouteIndex) -> Vec<RouteIndex> {
        let index = usize::from(route);
        let rule = &self.rules[index];
        let asked = asked(rule);
        let mut broader = Vec::new();
        for tree in self.trees_above(rule) {
            let including = tree.including(&self.rules, index, &asked);
            // Rules before this one win over it.
            let own = including.iter().position(|&other| other == index);
            let start = own.map_or(0, |own| own + 1);
            for &other in &including[start..] {
                let other_rule = &self.rules[other];
                if !rank::methods_overlap(&rule.methods, &other_rule.methods) {
                    continue;
                }
                broader.push(RouteIndex::from(other));
                if takes_all(&other_rule.methods, &rule.methods) {
                    return broader;
                }
            }
        }
        broader
    }

    /// Yields the trees whose hosts include a rule's host, its own first.
    fn trees_above(&self, rule: &Rule) -> impl Iterator<Item = &RouteTree> {
        let wildcard = rule.host.as_ref().filter(|host| host.is_wildcard());
        let own = wildcard.and_then(|host| self.wildcard_hosts.get(host.name()));
        // An exact host never includes a wildcard.
        let exact = rule.host.as_ref().filter(|host| !host.is_wildcard());
        let exact = exact.and_then(|host| self.exact_hosts.get(host.name()));
        let name = rule.host.as_ref().map_or("", |host| host.name());
        own.into_iter()
            .chain(exact)
            .chain(self.wildcard_hosts.above(name))
            .chain([&self.any_host])
    }
}

/// Whether `other`, a rule's methods, take every request that `methods`, those of another rule, take.
fn takes_all(other: &[Method], methods: &[Method]) -> bool {
    let takes = |method: &Method| {
        other.contains(method) || (*method == Method::HEAD && other.contains(&Method::GET))
    };
    other.is_empty() || (!methods.is_empty() && methods.iter().all(takes))
}

/// Makes the headers that every request of a rule has, if it asks for certain values.
fn asked(rule: &Rule) -> HeaderMap {
    let headers = rule.headers.iter();
    headers
        .filter_map(|(name, asked)| {
            let value = HeaderValue::from_str(asked.value()?).ok()?;
            Some((name.clone(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Case, HeaderMatch, HostPattern, PathPattern};
    use super::*;

    /// Parses `GET,POST host/path header=value`, of which only the path is required; `~` begins an expression.
    fn rule(text: &str) -> Rule {
        let mut words = text.split(' ');
        let first = words.next().unwrap_or_default();
        let (methods, place) = if first.contains('/') {
            ("", first)
        } else {
            (first, words.next().expect("a path"))
        };
        let (host, path) = place.split_at(place.find(['/', '~']).expect("a path"));
        let header = words
            .next()
            .map(|header| header.split_once('=').expect("a header"));
        Rule {
            path: match path.strip_prefix('~') {
                Some(regex) => PathPattern::regex(regex, Case::Exact).expect("an expression"),
                None => PathPattern::parse(path).expect("a path"),
            },
            host: (!host.is_empty()).then(|| HostPattern::parse(host).expect("a host")),
            methods: (methods.split(',').filter(|method| !method.is_empty()))
                .map(|method| method.parse().expect("a method"))
                .collect(),
            headers: (header.into_iter())
                .map(|(name, value)| {
                    let asked = HeaderMatch::parse(value).expect("a value");
                    (name.parse().expect("a name"), asked)
                })
                .collect(),
            case_insensitive: false,
        }
    }

    #[test]
    fn the_next_broader_routes_are_those_that_would_get_the_requests() {
        for (rules, expected) in [
            (&["/v1/login", "/*"][..], &[1][..]),
            (&["/v1/login", "/v1/*", "/*"], &[1]),
            (&["/v1/*", "/v1/login", "/*"], &[2]),
            (&["/v1/{id}", "/v1/*"], &[1]),
            (&["/v1/{id}", "/v1/a", "/v2/*"], &[]),
            (&["/v1/a", "/v1/{id}", "/v1/*"], &[1]),
            (&["/v1", "/v1/*"], &[1]),
            (&["/v1/*", "/v1"], &[]),
            (&["/a/b/*", "/a/{x}/c", "/*"], &[2]),
            // Methods: all, some, none of the requests.
            (&["/v1/login", "POST /v1/*", "/*"], &[1, 2]),
            (&["/v1/login", "POST /v1/*", "GET /v1/*", "/*"], &[1, 2, 3]),
            (&["POST /v1/login", "GET /v1/*", "POST /v1/*", "/*"], &[2]),
            (&["HEAD /v1/login", "GET /v1/*", "/*"], &[1]),
            (&["GET /v1/*", "/v1/*", "/*"], &[1]),
            (&["/v1/*", "GET /v1/*"], &[]),
            // Headers: a broader route asks for no more.
            (&["/v1/* x-a=1", "/v1/*", "/*"], &[1]),
            (&["/v1/b x-a=1", "/v1/* x-a=1", "/*"], &[1]),
            (&["/v1/b x-a=1", "/v1/* x-a=*", "/*"], &[1]),
            (&["/v1/b x-a=*", "/v1/* x-a=1", "/*"], &[2]),
            (&["/v1/b", "/v1/* x-a=1", "/*"], &[2]),
            // All that is known of expressions is whether they match a value, or are the same.
            (&["/v1/b x-a=12", "/v1/* x-a=re:1.*", "/*"], &[1]),
            (&["/v1/b x-a=2", "/v1/* x-a=re:1.*", "/*"], &[2]),
            (&["/v1/b x-a=re:1.*", "/v1/* x-a=re:1.*", "/*"], &[1]),
            (&["/v1/b x-a=re:12", "/v1/* x-a=re:1.*", "/*"], &[2]),
            (&["/v1/b x-a=re:1", "/v1/* x-a=1", "/*"], &[2]),
            (&["/v1/b x-a=re:1.*", "/v1/* x-a=*", "/*"], &[1]),
            (&["/v1/b x-a=*", "/v1/* x-a=re:.*", "/*"], &[2]),
            (&["/v1/b x-a=re:1", "/v1/b x-a=re:1.*", "/*"], &[2]),
            (&["/v1/b x-a=re:1", "/v1/b x-a=re:1.*", "/v1/b"], &[2]),
            // Hosts.
            (&["a.b.com/x", "a.b.com/*", "/*"], &[1]),
            (&["a.b.com/*", "*.b.com/*", "/*"], &[1]),
            (&["*.a.b.com/*", "*.b.com/x", "*.b.com/*", "/*"], &[2]),
            (&["a.b.com/x", "/*", "c.b.com/*"], &[1]),
            (&["*.b.com/*", "a.b.com/*", "/*"], &[2]),
            (&["/*", "a.b.com/*"], &[]),
            // Expressions.
            (&["/v1/a", "~/v1/.*", "/*"], &[1]),
            (&["/v1/{id}", "~/v1/.*", "/*"], &[2]),
            (&["~/v1/.*", "/v1/*", "/*"], &[2]),
            (&["~/v1/a", "~/v1/.*", "/*"], &[2]),
        ] {
            let router =
                Router::new(rules.iter().map(|text| rule(text)).collect()).expect("no ties");
            let expected: Vec<_> = expected
                .iter()
                .map(|&index: &usize| RouteIndex::from(index))
                .collect();
            assert_eq!(
                router.next_broader(RouteIndex::from(0)),
                expected,
                "{rules:?}"
            );
        }
    }
}
