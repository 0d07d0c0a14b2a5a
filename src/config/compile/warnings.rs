//! What is valid but probably not what was meant: `check`, the start and each reload say it, and go on.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, HeaderName, TE};
use ipnet::IpNet;
use typed_index_collections::TiVec;

use super::{cors, jwt, route_costs, store, upstreams};
use crate::config::display;
use crate::config::file::{File, RawRoute};
use crate::config::value::bytes_text;
use crate::index::{PolicyIndex, UpstreamIndex};
use crate::limit::Count;
use crate::request::hop_by_hop::is_taken_out;
use crate::request::{ADDRESS_CLAIMS, AddressSource, Part};
use crate::snapshot::{CostSource, Grant, Listener, Policy, PolicyMode, Route, Snapshot};

/// Says what of a file that compiled to `snapshot` does nothing, or refuses everything.
pub fn warnings(file: &File, snapshot: &Snapshot) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_used: TiVec<UpstreamIndex, _> = vec![false; snapshot.upstreams.len()].into();
    let mut applies: TiVec<PolicyIndex, _> = vec![false; snapshot.policies.len()].into();
    for route in &snapshot.routes {
        is_used[route.upstream] = true;
        for applied in &route.policies {
            applies[applied.policy] = true;
        }
    }
    for applied in snapshot.preflight_policies.iter().flatten() {
        applies[applied.policy] = true;
    }
    for (upstream, is_used) in snapshot.upstreams.iter().zip(is_used) {
        if !is_used {
            found.push(format!("no route uses upstream `{}`", upstream.name));
        }
    }
    for (policy, applies) in snapshot.policies.iter().zip(applies) {
        if policy.mode.is_none() {
            found.push(format!("policy `{}` is off", policy.name));
        } else if !applies {
            found.push(format!("no route uses policy `{}`", policy.name));
        }
        found.extend(warn_spoofable_partition(policy));
        found.extend(warn_spelling_dependent_partition(policy));
        found.extend(warn_client_chosen_tier(policy));
        found.extend(warn_client_chosen_cost(policy));
        found.extend(warn_shared_lockout(policy));
        found.extend(warn_unmatched_override(file, policy));
        found.extend(warn_max_cost_above_share(policy, snapshot.store.min_nodes));
        found.extend(warn_reserve_body_above_buffer(
            policy,
            &snapshot.listeners.raw,
        ));
    }
    for (table, route) in file.routes.iter().zip(&snapshot.routes) {
        found.extend(warn_ambiguous_header_match(&table.value, &route.name));
        let policies = &snapshot.policies;
        found.extend(route_costs::warn_ineffective_cost(
            &table.value,
            route,
            policies,
        ));
    }
    for route in &snapshot.routes {
        for applied in &route.policies {
            let policy = &snapshot.policies[applied.policy];
            found.extend(warn_unaffordable_cost(route, policy, applied.cost));
        }
    }
    found.extend(cors::warn_unlimited_preflights(snapshot));
    warn_ineffective_trust(file, &mut found);
    found.extend(
        snapshot
            .listeners
            .iter()
            .flat_map(|listener| warn_unused_certificates(listener)),
    );
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

/// What listeners believe of others in vain, or of everybody.
fn warn_ineffective_trust(file: &File, found: &mut Vec<String>) {
    for table in &file.listeners {
        let (name, identity) = (&table.name, &table.value.listener.identity);
        let (source, trusted_proxies) = (&identity.source, &identity.trusted_proxies);
        if table.has("client_address")
            && *source != AddressSource::Peer
            && trusted_proxies.is_empty()
        {
            found.push(format!(
                "listener `{name}`: `client_address` is never read, because `trusted_proxies` is empty"
            ));
        }
        if table.value.listener.proxy_protocol && trusted_proxies.is_empty() {
            found.push(format!(
                "listener `{name}`: every connection is closed, because `proxy_protocol` trusts only \
                 `trusted_proxies`, which is empty"
            ));
        }
        for everyone in trusted_proxies.iter().filter(|net| net.prefix_len() == 0) {
            found.push(format!(
                "listener `{name}`: `trusted_proxies` has {everyone}: any client can choose the address that it is limited by"
            ));
        }
    }
}

/// A certificate without names answers for no host, unless it is the first.
fn warn_unused_certificates(listener: &Listener) -> impl Iterator<Item = String> {
    let certificates = listener.tls.iter().flat_map(|tls| &tls.certificates);
    let nameless = certificates
        .skip(1)
        .filter(|certificate| !certificate.has_names);
    nameless.map(|nameless| {
        format!(
            "listener `{}`: the certificate of `{}` is never used, because it names no host",
            listener.name, nameless.name
        )
    })
}

/// An address that only trusted peers may say names nobody else: of others it is taken out.
fn warn_spoofable_partition(policy: &Policy) -> Option<String> {
    let choices = policy.partition.0.iter().chain(&policy.overrides_by().0);
    let parts = choices.flat_map(|choice| &choice.0);
    let mut names = parts.filter_map(|part| match part {
        Part::Header(name) => Some(name.as_str()),
        _ => None,
    });
    let name = names.find(|name| ADDRESS_CLAIMS.contains(name))?;
    Some(format!(
        "policy `{}` is partitioned by `header:{name}`, which is removed unless a trusted peer \
         sends it: use `ip`, with `trusted_proxies` and `client_address`",
        policy.name
    ))
}

/// Of some fields there are many spellings that origins take for the same, or none gets that far.
fn warn_spelling_dependent_partition(policy: &Policy) -> Option<String> {
    let mut parts = policy
        .partition
        .parts()
        .chain(policy.overrides_by().parts());
    let name = parts.find_map(|part| match part {
        Part::Header(name) if *name == COOKIE || never_arrives(name) => Some(name),
        _ => None,
    })?;
    let policy = &policy.name;
    Some(if *name == COOKIE {
        format!(
            "policy `{policy}`: a client that adds or reorders cookies counts as another client by \
             `header:cookie`: use `cookie:NAME`"
        )
    } else {
        format!(
            "policy `{policy}`: no request has `header:{name}`, because it is removed before policies read it"
        )
    })
}

/// Whether no request has a field of this name when it is read. Of TE, `trailers` stays.
fn never_arrives(name: &HeaderName) -> bool {
    is_taken_out(name) && *name != TE
}

/// A route may ask for a header that origins read in other spellings too, or that never comes.
fn warn_ambiguous_header_match(raw: &RawRoute, route: &str) -> Option<String> {
    let mut headers = raw.headers.iter();
    let (name, _) = headers
        .find(|(name, value)| is_taken_out(name) || (*name == AUTHORIZATION && value.is_some()))?;
    Some(if never_arrives(name) {
        format!("route `{route}` matches no request: `{name}` is removed before routes are matched")
    } else {
        format!(
            "route `{route}` compares `{name}` byte by byte, but origins accept other spellings of the same \
             credential, which fall through to other routes: its policies should not be stricter than theirs"
        )
    })
}

/// Who tells its own tier takes the largest. What trusted peers alone may say is the exception.
fn warn_client_chosen_tier(policy: &Policy) -> Option<String> {
    let by = policy.overrides.as_ref()?.by.as_ref()?;
    let part = by.parts().find(|part| match part {
        Part::Header(name) => !ADDRESS_CLAIMS.contains(&name.as_str()),
        part => matches!(part, Part::Cookie(_) | Part::Query(_)),
    })?;
    Some(format!(
        "policy `{}`: clients choose their tier, because `{}` is accepted from every peer, not \
         only from `trusted_proxies`: something in front of the gateway must set it for every client",
        policy.name,
        display::part(part)
    ))
}

/// Who tells the cost of its own requests pays what it likes.
fn warn_client_chosen_cost(policy: &Policy) -> Option<String> {
    let reported = policy
        .reported_cost
        .as_ref()?
        .header_of(CostSource::Request)?;
    let (name, header) = (&policy.name, &reported.header);
    let (least, most) = (reported.bounds.start(), reported.bounds.end());
    Some(format!(
        "policy `{name}`: clients choose what a request costs, from {least} to {most}, unless something \
         in front of the gateway sets `{header}`"
    ))
}

/// An answer that costs more than a quota, or than a node's share of it while Redis is away, overshoots it
/// alone; a reserve as large is refused.
fn warn_max_cost_above_share(policy: &Policy, nodes: u32) -> Option<String> {
    let most = *policy.body_cost()?.bounds.end();
    let quotas = policy.grants().flat_map(Grant::quotas);
    let share = quotas.map(|quota| quota.quota.limit).min()? / u64::from(nodes.max(1));
    let whose = match nodes {
        0 | 1 => "its smallest quota".to_owned(),
        nodes => format!("the share of one of {nodes} gateways in its smallest quota"),
    };
    (most > share).then(|| {
        format!(
            "policy `{}`: a response may cost up to {most}, more than {whose}, {share}: `max_cost` limits the cost \
             of one response",
            policy.name
        )
    })
}

/// A request is refused that is longer than all that may be buffered at once.
fn warn_reserve_body_above_buffer(policy: &Policy, listeners: &[Arc<Listener>]) -> Option<String> {
    let cost = policy
        .body_cost()
        .filter(|cost| cost.reserve.reported().is_some())?;
    let holds_less =
        |listener: &&Arc<Listener>| (listener.max_buffered_bytes as u64) < cost.max_reserve_body;
    let listener = listeners.iter().find(holds_less)?;
    (policy.mode == Some(PolicyMode::Enforce)).then(|| {
        format!(
            "policy `{}` buffers up to {} of a request, but listener `{}` buffers at most {} (`max_buffered_bytes`): \
             longer requests get 503",
            policy.name,
            bytes_text(cost.max_reserve_body),
            listener.name,
            bytes_text(listener.max_buffered_bytes as u64)
        )
    })
}

/// Where clients share a quota that counts refused requests, one that goes on asking keeps all out.
fn warn_shared_lockout(policy: &Policy) -> Option<String> {
    let mut quotas = policy.grant.quotas().iter();
    let counts_all = quotas.any(|part| part.quota.count == Count::All);
    let names_client = |part: &Part| {
        !matches!(
            part,
            Part::Host | Part::Method | Part::Route | Part::Path | Part::PathParam(_)
        )
    };
    let mut parts = policy.partition.0.iter().flat_map(|choice| &choice.0);
    (counts_all && !parts.any(names_client)).then(|| {
        format!(
            "policy `{}` counts refused requests against a quota that clients share: one client that \
             keeps retrying locks everyone out",
            policy.name
        )
    })
}

/// A client's address is known by its first bits only, so a longer network is nobody's.
fn warn_unmatched_override(file: &File, policy: &Policy) -> Option<String> {
    let mut networks = policy.overrides.as_ref()?.patterns.longest_networks();
    networks.find_map(|network| {
        let prefixes = (file.listeners.iter()).map(|table| table.value.listener.identity.prefixes);
        let (family, prefix) = match network {
            IpNet::V4(_) => ("IPv4", prefixes.map(|prefixes| prefixes.ipv4).max()),
            IpNet::V6(_) => ("IPv6", prefixes.map(|prefixes| prefixes.ipv6).max()),
        };
        let most = prefix.filter(|most| *most < network.prefix_len())?;
        let meant = IpNet::new(network.addr(), most).ok()?.trunc();
        Some(format!(
            "policy `{}`: the override of `{network}` never matches, because {family} clients count by /{most}: \
             did you mean `{meant}`?",
            policy.name
        ))
    })
}

/// A cost above what a quota can ever hold is always refused.
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
