//! What is no mistake but hardly meant: said by `check` and at start, and nothing more.

use super::store;
use crate::config::file::File;
use crate::limit::plan::Mode;
use crate::request::{ADDRESS_CLAIMS, AddressSource, Part};
use crate::snapshot::{Policy, Route, Snapshot};

/// Says what of a file that compiled to `snapshot` does nothing, or refuses everything.
pub fn warnings(file: &File, snapshot: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_used = vec![false; snapshot.upstreams.len()];
    let mut applies = vec![false; snapshot.policies.len()];
    for route in &snapshot.routes {
        is_used[route.upstream] = true;
        for applied in &route.policies {
            applies[applied.policy] = true;
        }
    }
    for (upstream, is_used) in snapshot.upstreams.iter().zip(is_used) {
        if !is_used {
            found.push(format!("upstream `{}` is used by no route", upstream.name));
        }
    }
    for (policy, applies) in snapshot.policies.iter().zip(applies) {
        if policy.mode.is_none() {
            found.push(format!("policy `{}` is off", policy.name));
        } else if !applies {
            found.push(format!("policy `{}` is used by no route", policy.name));
        }
        found.extend(said_by_clients(policy));
    }
    for route in &snapshot.routes {
        for applied in &route.policies {
            let policy = &snapshot.policies[applied.policy];
            found.extend(too_dear(route, policy, applied.cost));
        }
    }
    for (name, listener) in &file.listeners {
        let source = listener.client_address.as_ref().map(|at| &at.value);
        if source.is_some_and(|source| *source != AddressSource::Peer)
            && listener.trusted_proxies.is_empty()
        {
            found.push(format!(
                "listener `{}`: `client_address` is never read, because `trusted_proxies` is empty",
                name.value
            ));
        }
    }
    for listener in &snapshot.listeners {
        for proxies in &listener.identity.trusted_proxies {
            if proxies.prefix_len() == 0 {
                found.push(format!(
                    "listener `{}`: `trusted_proxies` has {proxies}: whoever connects can choose the address that is limited",
                    listener.name
                ));
            }
        }
    }
    if let Some(address) = snapshot.admin.address
        && !address.ip().is_loopback()
    {
        found.push(format!(
            "the admin port listens on {address}: others than this machine can reach it"
        ));
    }
    store::warnings(&file.store, &snapshot.store, &mut found);
    found
}

/// An address that only trusted peers may say names nobody else: of others it is taken out.
fn said_by_clients(policy: &Policy) -> Option<String> {
    let parts = policy.partition.0.iter().flat_map(|choice| &choice.0);
    let mut names = parts.filter_map(|part| match part {
        Part::Header(name) => Some(name.as_str()),
        _ => None,
    });
    let name = names.find(|name| ADDRESS_CLAIMS.contains(name))?;
    Some(format!(
        "policy `{}` is partitioned by `header:{name}`, which is taken out unless a trusted peer \
         sends it: `ip` is the address that `trusted_proxies` and `client_address` vouch for",
        policy.name
    ))
}

/// A cost that exceeds what a quota can ever hold is refused for ever.
fn too_dear(route: &Route, policy: &Policy, cost: u64) -> Option<String> {
    let capacity = policy
        .quotas
        .iter()
        .map(|part| part.quota.capacity())
        .min()?;
    (policy.mode == Some(Mode::Enforce) && cost > capacity).then(|| {
        format!(
            "route `{}` refuses every request: it costs {cost}, and policy `{}` never holds more than {capacity}",
            route.name, policy.name
        )
    })
}
