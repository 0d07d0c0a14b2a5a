//! Where requests go: origins, or one built-in answer.

use std::sync::Arc;

use super::defaults;
use crate::config::file::{self, At, Endpoint, File};
use crate::config::report::{Mistake, Report};
use crate::snapshot::{HttpUpstream, Upstream, UpstreamKind};

/// Compiles `[upstreams.NAME]`; what has no endpoints is left out.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Arc<Upstream>> {
    let compiled = file.upstreams.iter().filter_map(|(name, upstream)| {
        let kind = kind(name, upstream, report)?;
        Some(Arc::new(Upstream {
            name: name.value.as_str().into(),
            kind,
        }))
    });
    compiled.collect()
}

fn kind(name: &At<String>, upstream: &file::Upstream, report: &mut Report) -> Option<UpstreamKind> {
    let Some(endpoints) = &upstream.endpoints else {
        if !upstream.incomplete {
            report.add(
                Mistake::at(
                    name.span.clone(),
                    format!("upstream `{}` lacks `endpoints`", name.value),
                )
                .expected("a table with `endpoints`")
                .hint("add `endpoints = [\"http://127.0.0.1:9000\"]`"),
            );
        }
        return None;
    };
    let mut origins = Vec::new();
    for endpoint in &endpoints.value {
        let builtin = match &endpoint.value {
            Endpoint::Http(origin) => {
                origins.push(origin.clone());
                continue;
            }
            Endpoint::Echo => UpstreamKind::Echo,
            Endpoint::Status(status) => UpstreamKind::Status(*status),
        };
        if endpoints.value.len() == 1 {
            return Some(builtin);
        }
        report.add(
            Mistake::at(
                endpoint.span.clone(),
                "a built-in answer stands beside other endpoints",
            )
            .expected("URLs, or one `builtin:…` alone")
            .hint("give the built-in answer an upstream of its own"),
        );
    }
    if endpoints.value.is_empty() && !upstream.incomplete {
        report.add(
            Mistake::at(
                endpoints.span.clone(),
                format!("upstream `{}` has no endpoint", name.value),
            )
            .expected("at least one URL, or `builtin:echo`"),
        );
    }
    Some(UpstreamKind::Http(HttpUpstream {
        endpoints: origins,
        connect_timeout: upstream
            .connect_timeout
            .unwrap_or(defaults::CONNECT_TIMEOUT),
        retries: upstream.retries.unwrap_or(defaults::RETRIES),
        max_idle: upstream.max_idle.unwrap_or(defaults::POOL_MAX_IDLE),
        idle_timeout: upstream.idle_timeout.unwrap_or(defaults::POOL_IDLE_TIMEOUT),
    }))
}
