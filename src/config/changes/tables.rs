//! What a reload changes about listeners, upstreams, routes, and what stands outside of tables.

use std::time::Duration;

use super::{Diff, store};
use crate::config::value::bytes_text;
use crate::config::words;
use crate::snapshot::{Listener, Log, Route, Snapshot, Upstream, UpstreamKind};

/// Adds what changed outside of the named tables.
pub(super) fn top(old: &Snapshot, new: &Snapshot, lines: &mut Vec<String>) {
    let mut diff = Diff::of("", lines);
    let (was, is) = (old.ratelimit_headers, new.ratelimit_headers);
    diff.key("ratelimit_headers", &was, &is, |headers| {
        words::ratelimit_headers(*headers).to_owned()
    });
    diff.key(
        "shutdown_delay",
        &old.shutdown_delay,
        &new.shutdown_delay,
        time,
    );
    diff.key(
        "shutdown_grace",
        &old.shutdown_grace,
        &new.shutdown_grace,
        time,
    );
    store::applied(&old.store, &new.store, lines);
    log(&old.log, &new.log, lines);
}

fn log(old: &Log, new: &Log, lines: &mut Vec<String>) {
    let mut diff = Diff::of("log: ", lines);
    diff.key("level", &old.level, &new.level, |level| {
        level.to_string().to_lowercase()
    });
    diff.key("format", &old.format, &new.format, |format| {
        words::log_format(*format).to_owned()
    });
    diff.key("access", &old.access, &new.access, |access| {
        words::access_log(*access).to_owned()
    });
    diff.key("file", &old.file, &new.file, |file| match file {
        Some(file) => file.display().to_string(),
        None => "standard output".to_owned(),
    });
    diff.key("clients", &old.clients, &new.clients, |names| {
        words::client_names(*names).to_owned()
    });
}

/// Adds what changed between two listeners of one name, but for the address.
pub(super) fn listener(old: &Listener, new: &Listener, lines: &mut Vec<String>) {
    let mut diff = Diff::of(&format!("listener {}: ", old.name), lines);
    let (was, is) = (&old.identity, &new.identity);
    diff.key(
        "trusted_proxies",
        &was.trusted_proxies,
        &is.trusted_proxies,
        |nets| words::list(nets.iter().map(ToString::to_string)),
    );
    diff.key(
        "client_address",
        &was.source,
        &is.source,
        words::address_source,
    );
    diff.key(
        "ipv6_prefix",
        &was.ipv6_prefix,
        &is.ipv6_prefix,
        ToString::to_string,
    );
    diff.key(
        "max_connections",
        &old.max_connections,
        &new.max_connections,
        ToString::to_string,
    );
    diff.key(
        "max_held",
        &old.max_held,
        &new.max_held,
        ToString::to_string,
    );
    diff.key(
        "header_timeout",
        &old.header_timeout,
        &new.header_timeout,
        time,
    );
    diff.key("idle_timeout", &old.idle_timeout, &new.idle_timeout, time);
    diff.key("body_timeout", &old.body_timeout, &new.body_timeout, time);
    diff.key(
        "max_header_bytes",
        &old.max_header_bytes,
        &new.max_header_bytes,
        |bytes| bytes_text(*bytes as u64),
    );
    diff.key(
        "max_body_bytes",
        &old.max_body_bytes,
        &new.max_body_bytes,
        bound,
    );
}

/// Adds what changed between two upstreams of one name.
pub(super) fn upstream(old: &Upstream, new: &Upstream, lines: &mut Vec<String>) {
    let mut diff = Diff::of(&format!("upstream {}: ", old.name), lines);
    let (UpstreamKind::Http(was), UpstreamKind::Http(is)) = (&old.kind, &new.kind) else {
        diff.key("endpoints", &old.kind, &new.kind, words::endpoints);
        return;
    };
    diff.key("endpoints", &was.endpoints, &is.endpoints, |endpoints| {
        words::origins(endpoints)
    });
    diff.key(
        "connect_timeout",
        &was.connect_timeout,
        &is.connect_timeout,
        time,
    );
    diff.key("retries", &was.retries, &is.retries, ToString::to_string);
    diff.key(
        "pool.max_idle",
        &was.max_idle,
        &is.max_idle,
        ToString::to_string,
    );
    diff.key(
        "pool.idle_timeout",
        &was.idle_timeout,
        &is.idle_timeout,
        time,
    );
}

/// Adds what changed between two routes of one name; indices differ, so names are compared.
pub(super) fn route(
    (old, was): (&Snapshot, &Route),
    (new, is): (&Snapshot, &Route),
    lines: &mut Vec<String>,
) {
    let mut diff = Diff::of(&format!("route {}: ", was.name), lines);
    let (by, to) = (&old.upstreams[was.upstream], &new.upstreams[is.upstream]);
    diff.key("upstream", &by.name, &to.name, ToString::to_string);
    diff.key(
        "policies",
        &applied(old, was),
        &applied(new, is),
        String::clone,
    );
    diff.key(
        "strip_prefix",
        &was.strip_prefix,
        &is.strip_prefix,
        |prefix| prefix.as_deref().unwrap_or("none").to_owned(),
    );
    diff.key(
        "preserve_host",
        &was.preserve_host,
        &is.preserve_host,
        ToString::to_string,
    );
    diff.key(
        "response_timeout",
        &was.response_timeout,
        &is.response_timeout,
        time,
    );
    diff.key("body_timeout", &was.body_timeout, &is.body_timeout, time);
    diff.key(
        "max_body_bytes",
        &was.max_body_bytes,
        &is.max_body_bytes,
        bound,
    );
    diff.key(
        "encoded_slash",
        &was.encoded_slash,
        &is.encoded_slash,
        |slash| words::encoded_slash(*slash).to_owned(),
    );
}

/// Writes the policies of a route with their costs: `[a, b at cost 5]`.
fn applied(snapshot: &Snapshot, route: &Route) -> String {
    let policies = route.policies.iter();
    words::list(policies.map(|applied| words::applied(snapshot, applied)))
}

pub(super) fn time(time: &Duration) -> String {
    words::duration(*time)
}

#[expect(
    clippy::ref_option,
    reason = "the shape that `Diff::key` shows values with"
)]
fn bound(bytes: &Option<u64>) -> String {
    bytes.map_or_else(|| "none".to_owned(), bytes_text)
}
