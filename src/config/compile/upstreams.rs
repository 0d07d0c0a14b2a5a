//! Where requests go: origins, or one built-in answer.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use rustls::pki_types::ServerName;

use super::tls::{Servers, tls};
use crate::config::file::{File, RawEndpoint, RawUpstream, Table};
use crate::config::options::{UPSTREAM, UPSTREAM_TLS};
use crate::config::report::Report;
use crate::snapshot::{
    Endpoint, HttpUpstream, Scheme, Snapshot, Upstream, UpstreamKind, UpstreamTls,
};
use crate::tls::{ALPN_HTTP1, ALPN_HTTP2};

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
        };
        if upstream.endpoints.len() == 1 {
            if let Some(place) = table.place("tls") {
                needless(place, None, report);
            }
            return builtin;
        }
        let message = "a built-in answer stands beside other endpoints";
        (report.mistake(&endpoint.span, message, "URLs, or one `builtin:…` alone"))
            .hint("give the built-in answer an upstream of its own");
    }
    if let Some(place) = table.place("endpoints")
        && upstream.endpoints.is_empty()
        && !table.is_incomplete(UPSTREAM.about.title)
    {
        let message = format!("upstream `{}` has no endpoint", table.name);
        let expected = "at least one URL, or `builtin:echo`";
        report.mistake(place, message, expected);
    }
    UpstreamKind::Http(HttpUpstream {
        tls: encryption(table, &endpoints, report),
        endpoints,
        ..upstream.http.clone()
    })
}

/// Makes TLS for those endpoints that are spoken to over it.
fn encryption(
    table: &Table<RawUpstream>,
    endpoints: &[Endpoint],
    report: &mut Report,
) -> Option<UpstreamTls> {
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
                needless(place, endpoints.first(), report);
            }
            return None;
        }
    };
    let client = tls(&ORIGINS, table, &upstream.tls, place, report)?;
    Some(UpstreamTls {
        client: client.offering(&[ALPN_HTTP2, ALPN_HTTP1]),
        server_name: upstream.server_name.clone(),
    })
}

fn needless(place: &Range<usize>, first: Option<&Endpoint>, report: &mut Report) {
    let message = "`tls` is given, but no endpoint is spoken to over it";
    let mistake = report.mistake(place, message, "an endpoint that begins with `https`");
    mistake.hint(match first {
        Some(first) => format!(
            "write `https://{}` in `endpoints`, or leave `tls` out",
            first.authority
        ),
        None => "leave `tls` out".to_owned(),
    });
}

/// Adds what of the routes to origins over TLS is valid but probably not what was meant.
pub(super) fn warnings(snapshot: &Snapshot, found: &mut Vec<String>) {
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
                "route `{}`: `https://{}` is asked for the client's host, and in TLS for `{name}`: \
                 `preserve_host = false` if it serves only its own name",
                route.name, endpoint.authority
            ));
        }
    }
}

/// What `tls` is about here.
const ORIGINS: Servers = Servers {
    title: UPSTREAM_TLS,
    noun: "the upstream",
};
