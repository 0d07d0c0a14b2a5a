//! Warnings about routes: requests that they never match, and values that mean something elsewhere.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method};

use super::removed::never_arrives;
use crate::config::compile::route_costs::warn_ineffective_cost;
use crate::config::file::{File, RawRoute};
use crate::config::value::nearest;
use crate::cost::BodyFormat;
use crate::request::hop_by_hop::is_taken_out;
use crate::request::route::HeaderMatch;
use crate::snapshot::{Policy, PolicyMode, Route, Snapshot};

/// Adds the warnings about each route.
pub(super) fn warn(file: &File, snapshot: &Snapshot, found: &mut Vec<String>) {
    for (table, route) in file.routes.iter().zip(&snapshot.routes) {
        let (raw, name) = (&table.value, &*route.name);
        found.extend(warn_ambiguous_header_match(raw, name));
        found.extend(warn_ineffective_cost(raw, route, &snapshot.policies));
        found.extend(warn_unread_responses(raw, route));
        found.extend(warn_header_expression(raw, name));
        found.extend(
            raw.methods
                .iter()
                .filter_map(|at| warn_method(&at.value, name)),
        );
        found.extend(warn_whole_path_stripped(raw, name));
        found.extend(warn_rest_dropped(raw, name));
        let changes = [
            ("request_headers", &raw.request_headers_set),
            ("response_headers", &raw.response_headers_set),
        ];
        for (key, fields) in changes {
            found.extend(
                fields
                    .iter()
                    .filter_map(|field| warn_literal_value(key, field, name)),
            );
        }
    }
    for route in &snapshot.routes {
        for applied in &route.policies {
            let policy = &snapshot.policies[applied.policy];
            found.extend(warn_unaffordable_cost(route, policy, applied.cost));
        }
    }
    found.extend(warn_root_alone(file));
}

/// Warns of keys that say how responses are read, on a route that does not read them.
fn warn_unread_responses(raw: &RawRoute, route: &Route) -> Option<String> {
    let keys = [
        ("response_format", raw.response_format.is_some()),
        ("stream_end", raw.stream_end.is_some()),
    ];
    let (key, _) = keys.into_iter().find(|(_, is_set)| *is_set)?;
    let name = &route.name;
    let is_json = raw.response_format == Some(BodyFormat::Json);
    if route.bodies.is_none() {
        return Some(format!(
            "route `{name}`: `{key}` has no effect, because no policy of the route reads the bodies of responses"
        ));
    }
    (is_json && raw.stream_end.is_some()).then(|| {
        format!("route `{name}`: `stream_end` has no effect, because `response_format` is \"json\"")
    })
}

/// Warns of unregistered methods, which are likely misspelled, and of CONNECT, which never gets as far as a route.
fn warn_method(method: &Method, route: &str) -> Option<String> {
    if *method == Method::CONNECT {
        return Some(format!(
            "route `{route}` never gets a request with the method `CONNECT`, which the gateway refuses: \
             connections are upgraded with `GET`"
        ));
    }
    let text = method.as_str();
    (!REGISTERED.contains(&text)).then(|| {
        let hint = nearest(text, REGISTERED).map_or_else(
            || "requests must have it exactly so".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        format!("route `{route}`: `{text}` is no registered method of HTTP: {hint}")
    })
}

/// Warns of values that look like an expression or a glob: they are compared literally, and match nothing.
fn warn_header_expression(raw: &RawRoute, route: &str) -> Option<String> {
    let looks_so = |value: &str| {
        let is_list = value.contains('/') || value.contains(',');
        value.starts_with(['^', '~']) || (!is_list && (value.contains('*') || value.contains('|')))
    };
    let mut headers = raw.headers.iter();
    headers.find_map(|(name, asked)| match asked {
        HeaderMatch::Value(value) if looks_so(value) => Some(format!(
            "route `{route}`: the value of `{name}` is compared as it stands, and has no wildcards: for any value \
             write `\"*\"`, and for those of a regular expression `\"re:EXPRESSION\"`"
        )),
        HeaderMatch::Any => None,
        _ if asked.is_empty() => Some(format!(
            "route `{route}` matches only requests whose `{name}` is empty: for any value write `\"*\"`"
        )),
        _ => None,
    })
}

/// Warns of a `strip_prefix` that is all that the route matches.
fn warn_whole_path_stripped(raw: &RawRoute, route: &str) -> Option<String> {
    let (path, prefix) = (raw.path.as_ref()?, raw.strip_prefix.as_ref()?);
    let (path, prefix) = (
        path.value.trim_end_matches('/'),
        prefix.value.trim_end_matches('/'),
    );
    (path == prefix).then(|| {
        format!(
            "route `{route}` matches this path alone, so `strip_prefix` leaves `/` of it: for what is below, too, \
             write `path = \"{path}/*\"`"
        )
    })
}

/// Warns of a `rewrite` without the `*` that ends the path, which sends all requests to one path.
fn warn_rest_dropped(raw: &RawRoute, route: &str) -> Option<String> {
    let (path, template) = (raw.path.as_ref()?, &raw.rewrite.as_ref()?.value);
    let last = template.rsplit('/').next().unwrap_or_default();
    // A template that ends with a file, such as `/index.html`, is meant for every path.
    (path.value.ends_with("/*") && last != "*" && !last.contains('.')).then(|| {
        let with_rest = format!("{}/*", template.trim_end_matches('/'));
        format!(
            "route `{route}`: `rewrite` leaves out what `*` stands for, so every request is forwarded to one path: \
             did you mean `{with_rest}`?"
        )
    })
}

/// Warns if every route matches one path alone, and one of them `/`, which means every path in other proxies.
fn warn_root_alone(file: &File) -> Option<String> {
    let path = |raw: &RawRoute| raw.path.as_ref().map_or("", |at| &*at.value).to_owned();
    let is_more = |path: &str| path.is_empty() || path.contains(['*', '{']);
    let mut paths = file.routes.iter().map(|table| path(&table.value));
    let has_root = paths.clone().any(|path| path == "/");
    (has_root && !paths.any(|path| is_more(&path))).then(|| {
        "no route matches more than one path: `/` is the root alone, every path is `/*`, and all below `/api` is \
         `/api/*`"
            .to_owned()
    })
}

/// Warns of values with variables, which other proxies fill in but which are sent literally here, and of empty ones.
fn warn_literal_value(
    key: &str,
    (name, value): &(HeaderName, HeaderValue),
    route: &str,
) -> Option<String> {
    let text = value.to_str().ok()?;
    if text.is_empty() {
        return Some(format!(
            "route `{route}` sets `{name}` to nothing in `{key}`: `remove = [\"{name}\"]` leaves it out"
        ));
    }
    is_filled_elsewhere(text).then(|| {
        format!(
            "route `{route}`: the value of `{name}` in `{key}` is sent as it stands: there are no variables of \
             requests"
        )
    })
}

/// Whether nginx (`$host`), HAProxy (`%[src]`), Envoy (`%PROTOCOL%`), Caddy (`{remote_host}`), Kong
/// (`$(headers.x)`) or a template (`{{ . }}`) would fill a value in.
fn is_filled_elsewhere(value: &str) -> bool {
    let is_name = |text: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        !text.is_empty() && text.bytes().all(is_part)
    };
    let between = |open, close| value.strip_prefix(open)?.strip_suffix(close);
    let has_variable = value
        .match_indices('$')
        .any(|(at, _)| value[at + 1..].starts_with(|c: char| c.is_ascii_lowercase() || c == '('));
    let of_envoy = between('%', '%').is_some_and(|name| {
        let name = name.split('(').next().unwrap_or_default();
        is_name(name) && name.chars().all(|c| !c.is_ascii_lowercase())
    });
    has_variable
        || of_envoy
        || value.contains("%[")
        || value.contains("{{")
        || between('{', '}').is_some_and(is_name)
}

/// Warns of a route that matches on a header which origins read in other spellings, too, or which never arrives.
fn warn_ambiguous_header_match(raw: &RawRoute, route: &str) -> Option<String> {
    let mut headers = raw.headers.iter();
    let (name, _) = headers.find(|(name, asked)| {
        is_taken_out(name) || (*name == AUTHORIZATION && *asked != HeaderMatch::Any)
    })?;
    Some(if never_arrives(name) {
        format!("route `{route}` matches no request: `{name}` is removed before routes are matched")
    } else {
        format!(
            "route `{route}` compares `{name}` byte by byte, but origins accept other spellings of the same \
             credential, which fall through to other routes: its policies should not be stricter than theirs"
        )
    })
}

/// Warns of a cost above what a quota can ever hold, which is always refused.
fn warn_unaffordable_cost(route: &Route, policy: &Policy, cost: u64) -> Option<String> {
    let capacities = policy
        .grant
        .quotas()
        .iter()
        .map(|part| part.quota.capacity());
    let capacity = capacities.min()?;
    (policy.mode == Some(PolicyMode::Enforce) && cost > capacity).then(|| {
        format!(
            "route `{}` refuses every request: it costs {cost}, and policy `{}` never holds more than {capacity}",
            route.name, policy.name
        )
    })
}

/// The methods that are registered at IANA.
const REGISTERED: [&str; 40] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "CONNECT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PRI",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "TRACE",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];
