//! Where requests go: origins, or one built-in answer.

use std::sync::Arc;

use crate::config::file::{File, RawEndpoint, RawUpstream, Table};
use crate::config::options::UPSTREAM;
use crate::config::report::Report;
use crate::snapshot::{HttpUpstream, Upstream, UpstreamKind};

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
    let http = upstream.http.clone();
    UpstreamKind::Http(HttpUpstream { endpoints, ..http })
}
