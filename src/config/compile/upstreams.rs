//! Where requests go: origins, or one built-in answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use http::HeaderName;
use rustls::pki_types::ServerName;

use super::tls::{TlsServers, tls, warn_unverified};
use crate::config::display;
use crate::config::file::{BalanceName, File, RawEndpoint, RawRoute, RawUpstream, Table};
use crate::config::options::{UPSTREAM, UPSTREAM_HEALTH, UPSTREAM_TLS};
use crate::config::report::Report;
use crate::request::AddressSource;
use crate::request::route::HeaderMatch;
use crate::snapshot::{
    Balance, Endpoint, Health, HttpUpstream, Listener, Route, Scheme, Snapshot, Upstream,
    UpstreamKind,
};
use crate::tls::{ALPN_HTTP1, ALPN_HTTP2, ClientTls};

/// Compiles `[upstreams.NAME]`.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Arc<Upstream>> {
    let compiled = file.upstreams.iter().map(|table| {
        let (name, kind) = (Arc::clone(&table.name), kind(table, report));
        Arc::new(Upstream { name, kind })
    });
    compiled.collect()
}

fn kind(table: &Table<RawUpstream>, report: &mut Report) -> UpstreamKind {
    let upstream = &table.value;
    let mut endpoints = Vec::new();
    for endpoint in &upstream.endpoints {
        let builtin = match &endpoint.value {
            RawEndpoint::Http(origin) => {
                endpoints.push(origin.clone());
                continue;
            }
            RawEndpoint::Echo => UpstreamKind::Echo,
            RawEndpoint::Status(status) => UpstreamKind::Status(*status),
            RawEndpoint::RedirectHttps => UpstreamKind::RedirectHttps,
            RawEndpoint::Usage => UpstreamKind::Usage,
        };
        if upstream.endpoints.len() == 1 {
            if let Some(place) = table.place("tls") {
                needless_tls(place, None, report);
            }
            return builtin;
        }
        let message = "a built-in response is combined with other endpoints";
        (report.mistake(&endpoint.span, message, "URLs, or one `builtin:…` alone"))
            .hint("give the built-in response its own upstream");
    }
    if let Some(place) = table.place("endpoints")
        && upstream.endpoints.is_empty()
        && !table.is_incomplete(UPSTREAM.about.title)
    {
        let message = format!("upstream `{}` has no endpoint", table.name);
        let expected = "at least one URL, or `builtin:echo`";
        report.mistake(place, message, expected);
    }
    refuse_repeated_endpoints(table, report);
    UpstreamKind::Http(HttpUpstream {
        tls: encryption(table, &endpoints, report),
        endpoints,
        balance: balance(table, report),
        health: health(table, report),
        ..upstream.http.clone()
    })
}

/// Refuses an endpoint that is listed twice: it would get twice its share, and be two endpoints to ejection.
fn refuse_repeated_endpoints(table: &Table<RawUpstream>, report: &mut Report) {
    let mut known = HashMap::new();
    for endpoint in &table.value.endpoints {
        let RawEndpoint::Http(Endpoint {
            host, port, scheme, ..
        }) = &endpoint.value
        else {
            continue;
        };
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let places = match host.parse::<IpAddr>() {
            Ok(address) => vec![address.to_canonical().to_string()],
            Err(_) if name == "localhost" => vec!["127.0.0.1".to_owned(), "::1".to_owned()],
            Err(_) => vec![name],
        };
        let mut first = None;
        for place in places {
            first = known.insert((place, port), scheme).or(first);
        }
        if let Some(first) = first {
            let name = &table.name;
            let message = format!("upstream `{name}` has this endpoint twice");
            let hint = if first == scheme {
                "to send more requests there, write `{ url = \"…\", weight = 2 }` once"
            } else {
                "a port has one protocol: leave out the other URL"
            };
            (report.mistake(&endpoint.span, message, "another host or port")).hint(hint);
        }
    }
}

/// Compiles `balance`, and `hash_by`, which goes with `balance = "hash"` only.
fn balance(table: &Table<RawUpstream>, report: &mut Report) -> Balance {
    let (name, hash) = (table.value.balance, &table.value.hash);
    let is_incomplete = table.is_incomplete(UPSTREAM.about.title);
    let parts = "parts of requests such as `[\"cookie:session | ip\"]`";
    match (name, hash, table.place("balance"), table.place("hash_by")) {
        (BalanceName::Hash, Some(hash), _, Some(place)) if hash.0.is_empty() => {
            let message = "`hash_by` has no part, so all requests would go to one endpoint";
            report.mistake(place, message, parts);
        }
        (BalanceName::Hash, None, Some(place), _) if !is_incomplete => {
            let message = "`balance = \"hash\"` without `hash_by`";
            (report.mistake(place, message, "the key `hash_by` as well"))
                .hint("add `hash_by = [\"cookie:session | ip\"]`, or other parts of requests");
        }
        (BalanceName::RoundRobin | BalanceName::LeastRequests, Some(_), _, Some(place))
            if !is_incomplete =>
        {
            let text = display::word(display::BALANCES, &name);
            let message = format!("`hash_by` does not go with `balance = \"{text}\"`");
            (report.mistake(place, message, "a key for `balance = \"hash\"` only"))
                .hint("remove it, or set `balance = \"hash\"`");
        }
        _ => {}
    }
    match (name, hash) {
        (BalanceName::Hash, Some(hash)) => Balance::Hash(hash.clone()),
        (BalanceName::LeastRequests, _) => Balance::LeastRequests,
        _ => Balance::RoundRobin,
    }
}

/// Compiles `[upstreams.NAME.health]`, the keys of which need a `path`.
fn health(table: &Table<RawUpstream>, report: &mut Report) -> Option<Health> {
    let upstream = &table.value;
    if let Some(place) = table.place("health.status")
        && upstream.health.status.is_empty()
    {
        let message = "the list of statuses is empty, so no endpoint would be healthy";
        report.mistake(place, message, "at least one status");
    }
    let Some(path) = upstream.health_path.clone() else {
        let others = HEALTH_KEYS
            .iter()
            .filter_map(|key| table.place(key).map(|at| (key, at)));
        if let Some((key, place)) = others.min_by_key(|(_, place)| place.start)
            && !table.is_incomplete(UPSTREAM_HEALTH)
        {
            let key = key.trim_start_matches("health.");
            let message = format!("`{key}` without a `path`");
            (report.mistake(place, message, "a `path` as well"))
                .hint("add `path = \"/healthz\"`: without a `path`, endpoints are not checked");
        }
        return None;
    };
    Some(Health {
        path,
        ..upstream.health.clone()
    })
}

/// Builds TLS for the `https` endpoints of an upstream, if it has any.
fn encryption(
    table: &Table<RawUpstream>,
    endpoints: &[Endpoint],
    report: &mut Report,
) -> Option<ClientTls> {
    let upstream = &table.value;
    let mut origins = upstream.endpoints.iter().zip(endpoints);
    let secure = origins.find(|(_, endpoint)| endpoint.scheme == Scheme::Https);
    let place = match (table.place("tls"), secure) {
        (Some(place), Some(_)) => place,
        (None, Some((at, _))) => &at.span,
        (None, None) => return None,
        (Some(place), None) => {
            // An endpoint that is wrong may be one with `https`.
            if !table.is_incomplete(UPSTREAM.about.title) {
                needless_tls(place, endpoints.first(), report);
            }
            return None;
        }
    };
    let client = tls(&ORIGINS, table, &upstream.tls, place, report)?;
    Some(client.offering(&[ALPN_HTTP2, ALPN_HTTP1]))
}

fn needless_tls(place: &Range<usize>, first: Option<&Endpoint>, report: &mut Report) {
    let message = "`tls` is given, but no endpoint uses TLS";
    let mistake = report.mistake(place, message, "an endpoint that begins with `https`");
    mistake.hint(match first {
        Some(first) => format!(
            "write `https://{}` in `endpoints`, or leave `tls` out",
            first.authority
        ),
        None => "leave `tls` out".to_owned(),
    });
}

/// Adds the warnings about upstreams and routes to them: what is valid but probably not what was meant.
pub(super) fn warnings(file: &File, snapshot: &Snapshot, found: &mut Vec<String>) {
    for table in &file.upstreams {
        let name = &table.name;
        warn_unverified(
            &format!("upstream `{name}`"),
            &table.value.tls,
            false,
            found,
        );
        if table.value.http.retries == 0 && table.has("retry_budget") {
            found.push(format!(
                "upstream `{name}`: `retry_budget` does nothing, because `retries` is 0"
            ));
        }
    }
    warn_redirect_loop(file, snapshot, found);
    warn_cleartext_beside_redirect(file, snapshot, found);
    warn_preserved_host_differs(snapshot, found);
}

/// Warns of redirects to HTTPS that requests over TLS would get as well, and of routes for an unknown scheme.
fn warn_redirect_loop(file: &File, snapshot: &Snapshot, found: &mut Vec<String>) {
    let kinds = || snapshot.upstreams.iter().map(|upstream| &upstream.kind);
    let hides_scheme = |listener: &&Arc<Listener>| {
        listener.trusts_peers() && listener.identity.source != AddressSource::XForwardedFor
    };
    let deaf = snapshot
        .listeners
        .iter()
        .filter(|listener| listener.tls.is_none());
    for listener in deaf.filter(hides_scheme) {
        if kinds().any(|kind| *kind == UpstreamKind::RedirectHttps) {
            found.push(format!(
                "listener `{}` ignores `X-Forwarded-Proto`, so HTTPS requests from a proxy are \
                 redirected in a loop: set `client_address = \"x-forwarded-for\"`",
                listener.name
            ));
        }
    }
    let may_be_secure =
        |listener: &Arc<Listener>| listener.tls.is_some() || listener.trusts_peers();
    if !snapshot.listeners.iter().any(may_be_secure) {
        return;
    }
    for (table, route) in file.routes.iter().zip(&snapshot.routes) {
        let mut asked = table.value.headers.iter();
        let is_never = |(name, asked): &(HeaderName, HeaderMatch)| {
            *name == "x-forwarded-proto" && !asked.takes(b"http") && !asked.takes(b"https")
        };
        if asked.any(is_never) {
            found.push(format!(
                "route `{}` never matches: `x-forwarded-proto` is always \"http\" or \"https\"",
                route.name
            ));
        }
        let redirects = snapshot.upstreams[route.upstream].kind == UpstreamKind::RedirectHttps;
        if redirects && !is_for_scheme(&table.value, "http") {
            found.push(format!(
                "route `{}` redirects to HTTPS, but requests over TLS get 508: add \
                 `headers = {{ x-forwarded-proto = \"http\" }}`",
                route.name
            ));
        }
    }
}

/// Warns of routes in cleartext that win over a redirect to HTTPS which covers them, because they are more specific.
fn warn_cleartext_beside_redirect(file: &File, snapshot: &Snapshot, found: &mut Vec<String>) {
    let redirects = |route: &Route| {
        let upstream = &snapshot.upstreams[route.upstream];
        upstream.kind == UpstreamKind::RedirectHttps
    };
    let routes = file.routes.iter().zip(&snapshot.routes);
    let (redirecting, others): (Vec<_>, Vec<_>) = routes.partition(|(_, route)| redirects(route));
    for (Table { value: own, .. }, route) in others {
        let is_exempt = |path: &str| path.starts_with(ACME_CHALLENGES);
        if is_for_scheme(own, "https")
            || own.path.as_ref().is_some_and(|path| is_exempt(&path.value))
        {
            continue;
        }
        let mut redirections = redirecting
            .iter()
            .filter(|(Table { value: other, .. }, _)| {
                let is_host = host(other).is_none() || host(other) == host(own);
                is_host && covers(other, own)
            });
        let Some((_, redirection)) = redirections.clone().next() else {
            continue;
        };
        // Of two routes with the same host and path, the one with more headers wins.
        let wins = |(Table { value: other, .. }, _): &(&Table<RawRoute>, _)| {
            let is_same = host(other) == host(own) && path(other) == path(own);
            is_same && other.methods.is_empty() && is_for_scheme(other, "http")
        };
        if !redirections.any(wins) {
            found.push(format!(
                "route `{}` is also served in cleartext, despite the redirect of `{}`: \
                 add `headers = {{ x-forwarded-proto = \"https\" }}`",
                route.name, redirection.name
            ));
        }
    }
}

/// Paths at which authorities check, in clear text, who controls a host (RFC 8555, section 8.3).
const ACME_CHALLENGES: &str = "/.well-known/acme-challenge/";

fn host(route: &RawRoute) -> Option<&str> {
    route.host.as_ref().map(|host| &*host.value)
}

fn path(route: &RawRoute) -> Option<&str> {
    route.path.as_ref().map(|path| &*path.value)
}

/// Whether every path of `route` is also one of `other`; false if either has a regular expression.
fn covers(other: &RawRoute, route: &RawRoute) -> bool {
    let (Some(other), Some(path)) = (path(other), path(route)) else {
        return false;
    };
    match other.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == other,
    }
}

/// Whether a route is only for requests that came with this scheme.
fn is_for_scheme(route: &RawRoute, scheme: &str) -> bool {
    let other = if scheme == "http" { "https" } else { "http" };
    let says = |(name, asked): &(HeaderName, HeaderMatch)| {
        let takes = |scheme: &str| asked.takes(scheme.as_bytes());
        *name == "x-forwarded-proto" && takes(scheme) && !takes(other)
    };
    route.headers.iter().any(says)
}

/// Warns of `https` endpoints that get the client's Host header, which they may not serve.
fn warn_preserved_host_differs(snapshot: &Snapshot, found: &mut Vec<String>) {
    for route in snapshot.routes.iter().filter(|route| route.preserve_host) {
        let upstream = &snapshot.upstreams[route.upstream];
        let UpstreamKind::Http(http) = &upstream.kind else {
            continue;
        };
        let mut named = http.endpoints.iter().filter(|endpoint| {
            endpoint.scheme == Scheme::Https && endpoint.host.parse::<IpAddr>().is_err()
        });
        if let Some(endpoint) = named.next() {
            let own = (http.tls.as_ref()).and_then(|tls| tls.server_name.as_ref());
            let name = own.map_or(endpoint.host.as_ref().into(), ServerName::to_str);
            found.push(format!(
                "route `{}`: `https://{}` gets the client's Host header, but TLS asks for `{name}`: \
                 set `preserve_host = false` if it serves only its own name",
                route.name, endpoint.authority
            ));
        }
    }
}

/// Keys of health checks, which need a `path`.
const HEALTH_KEYS: [&str; 6] = [
    "health.host",
    "health.status",
    "health.interval",
    "health.timeout",
    "health.healthy_after",
    "health.unhealthy_after",
];
/// The servers that `[upstreams.NAME.tls]` is for.
const ORIGINS: TlsServers = TlsServers {
    title: UPSTREAM_TLS,
    noun: "the upstream",
};
