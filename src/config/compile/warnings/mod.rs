//! Warnings: what is valid but probably not what was meant. `check`, the start and each reload say it, and go on.

mod fewer_limits;
mod listeners;
mod policies;
mod quotas;
mod removed;
mod routes;

use typed_index_collections::TiVec;

use super::{cors, jwt, store, upstreams};
use crate::config::file::File;
use crate::index::{PolicyIndex, UpstreamIndex};
use crate::snapshot::{Log, Snapshot};

/// Returns the warnings about a file that compiled to `snapshot`, one sentence each.
pub fn warnings(file: &File, snapshot: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_used: TiVec<UpstreamIndex, _> = vec![false; snapshot.upstreams.len()].into();
    let mut routes_of: TiVec<PolicyIndex, _> = vec![Vec::new(); snapshot.policies.len()].into();
    for route in &snapshot.routes {
        is_used[route.upstream] = true;
        for applied in &route.policies {
            routes_of[applied.policy].push(route);
        }
    }
    let mut applies: TiVec<PolicyIndex, _> = routes_of.iter().map(|of| !of.is_empty()).collect();
    for spill in snapshot.policies.iter().filter_map(|policy| policy.spill) {
        applies[spill] = true;
    }
    for applied in snapshot.preflight_policies.iter().flatten() {
        applies[applied.policy] = true;
    }
    for (upstream, is_used) in snapshot.upstreams.iter().zip(is_used) {
        if !is_used {
            found.push(format!("no route uses upstream `{}`", upstream.name));
        }
    }
    for (table, (index, policy)) in file
        .policies
        .iter()
        .zip(snapshot.policies.iter_enumerated())
    {
        if policy.mode.is_none() {
            found.push(format!("policy `{}` is off", policy.name));
        } else if !applies[index] {
            found.push(format!("no route uses policy `{}`", policy.name));
        }
        quotas::warn(policy, &mut found);
        let routes = &routes_of[index];
        policies::warn(file, snapshot, (table, policy, routes), &mut found);
    }
    routes::warn(file, snapshot, &mut found);
    found.extend(cors::warn_unlimited_preflights(snapshot));
    fewer_limits::warn(file, snapshot, &mut found);
    listeners::warn_ineffective_trust(file, &mut found);
    listeners::warn_missing_addresses(snapshot, &mut found);
    let listeners = snapshot.listeners.iter();
    found.extend(listeners.flat_map(|listener| listeners::warn_unused_certificates(listener)));
    found.extend(warn_log_named_as_stream(&snapshot.log));
    let admin = snapshot.admin.address;
    if let Some(address) = admin.filter(|address| !address.ip().is_loopback()) {
        found.push(format!(
            "the admin port listens on {address}: other machines can reach it"
        ));
    }
    upstreams::warnings(file, snapshot, &mut found);
    store::warnings(&file.store, snapshot, &mut found);
    jwt::warnings(file, snapshot, &mut found);
    found
}

/// Warns of a log file whose name means a stream in other products.
fn warn_log_named_as_stream(log: &Log) -> Option<String> {
    let file = log.file.as_ref()?.to_str()?;
    let is_stream = [
        "stderr", "stdout", "-", "console", "syslog", "off", "none", "null",
    ]
    .contains(&file)
        || file.starts_with("syslog:");
    is_stream.then(|| {
        format!(
            "log: `file = \"{file}\"` is a file of that name in the working directory: left out, the log goes to \
             standard output; standard error is `/dev/stderr`"
        )
    })
}
