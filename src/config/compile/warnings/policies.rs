//! Warnings about policies: what they read of requests, what they cost, and what can never happen.

use std::sync::Arc;

use http::header::COOKIE;
use ipnet::IpNet;

use super::removed::never_arrives;
use crate::config::display;
use crate::config::file::{File, RawPolicy, Table};
use crate::config::value::bytes_text;
use crate::limit::Count;
use crate::request::{ADDRESS_CLAIMS, Part};
use crate::snapshot::{
    AppliedPolicy, CostSource, Grant, Listener, Policy, PolicyMode, Route, Snapshot,
};

/// Adds the warnings about one policy, about its table, and about the routes that have it.
pub(super) fn warn(
    file: &File,
    snapshot: &Snapshot,
    (table, policy, routes): (&Table<RawPolicy>, &Policy, &[&Route]),
    found: &mut Vec<String>,
) {
    found.extend(warn_literal(table));
    found.extend(warn_repeated_part(policy));
    found.extend(warn_free(snapshot, policy, routes));
    found.extend(warn_spoofable_partition(policy));
    found.extend(warn_spelling_dependent_partition(policy));
    found.extend(warn_client_chosen_tier(policy));
    found.extend(warn_client_chosen_glob(snapshot, policy, routes));
    found.extend(warn_client_chosen_cost(policy));
    found.extend(warn_shared_lockout(policy));
    found.extend(warn_unmatched_override(file, policy));
    found.extend(warn_max_cost_above_share(
        &table.value,
        policy,
        snapshot.store.min_nodes,
    ));
    found.extend(warn_leaving_early(&table.value, policy));
    found.extend(warn_reserve_body_above_buffer(
        policy,
        &snapshot.listeners.raw,
    ));
}

/// Warns of texts that look like a file's path or a regular expression, but are taken literally.
fn warn_literal(table: &Table<RawPolicy>) -> impl Iterator<Item = String> {
    let (name, raw) = (&table.name, &table.value);
    let body = raw.refusal_body.as_deref().unwrap_or_default();
    let is_path = |text: &str| {
        ["/", "./", "file:", "@"]
            .iter()
            .any(|start| text.starts_with(start))
    };
    let is_file = is_path(body) && !body.contains(char::is_whitespace) && body.len() > 1;
    let of_body = is_file.then(|| {
        format!(
            "policy `{name}`: `body` is sent as it stands: the content of a file is `\"${{file:/etc/tollgate/429.html}}\"`"
        )
    });
    let is_expression = |pattern: &str| {
        pattern.starts_with('^') || pattern.ends_with(".*") || pattern.ends_with('$')
    };
    let mut patterns = raw.overrides.0.iter().map(|one| &*one.pattern.value);
    let of_pattern = patterns.any(is_expression).then(|| {
        format!(
            "policy `{name}`: a pattern of `overrides` looks like a regular expression, and is compared as it stands: \
             all that begin with `live_` are `\"live_*\"`"
        )
    });
    of_body.into_iter().chain(of_pattern)
}

/// Warns of a policy that never refuses a request, because each costs 0.
fn warn_free(snapshot: &Snapshot, policy: &Policy, routes: &[&Route]) -> Option<String> {
    let applied = routes.iter().flat_map(|route| &route.policies);
    let mut costs = applied
        .filter(|applied| snapshot.policies[applied.policy].name == policy.name)
        .map(|applied| applied.cost)
        .peekable();
    let is_free =
        policy.reported_cost.is_none() && costs.peek().is_some() && costs.all(|cost| cost == 0);
    is_free.then(|| {
        format!(
            "policy `{}` never refuses anything, because its requests cost 0",
            policy.name
        )
    })
}

/// Warns of a partition that has a part twice.
fn warn_repeated_part(policy: &Policy) -> Option<String> {
    let choices = &policy.partition.0;
    let repeats = |(at, choice)| choices[..at].contains(choice);
    let (_, twice) = choices.iter().enumerate().find(|&one| repeats(one))?;
    Some(format!(
        "policy `{}`: `partition` has `{}` twice, which means the same as once",
        policy.name,
        display::choice(twice)
    ))
}

/// Warns of globs that clients can choose by inventing a key, unless another policy of the route knows the
/// client by something that it cannot invent.
fn warn_client_chosen_glob(
    snapshot: &Snapshot,
    policy: &Policy,
    routes: &[&Route],
) -> Option<String> {
    let overrides = policy.overrides.as_ref()?;
    let part = overrides.inventable_glob.as_ref()?;
    let is_safe = |part: &Part| matches!(part, Part::Ip | Part::ClientCert | Part::Claim(_));
    let knows_client = |applied: &AppliedPolicy| {
        let other = &snapshot.policies[applied.policy];
        other.mode == Some(PolicyMode::Enforce)
            && matches!(other.grant, Grant::Quotas(_))
            && other.partition.parts().all(is_safe)
    };
    let is_alone = |route: &&Route| !route.policies.iter().any(knows_client);
    routes.iter().any(is_alone).then(|| {
        format!(
            "policy `{}`: clients choose their override, because anyone can send a `{}` that a pattern with `*` \
             matches: list the keys (`overrides_file`), or add a policy by `ip` to its routes",
            policy.name,
            display::part(part)
        )
    })
}

/// Warns of a partition by a field with addresses, which is taken out unless a trusted peer sends it.
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

/// Warns of a partition by a field that has many spellings for the same, or that never reaches policies.
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

/// Warns of tiers that clients can choose: in a cookie, a query, or a header not reserved for trusted peers.
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

/// Warns of a cost that clients themselves declare, so they pay what they like.
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

/// Warns of a `max_cost` above a quota, or a node's share of it while Redis is away: one answer can overshoot it,
/// and a request that reserves as much is refused. Without `max_cost`, the summary says by how much.
fn warn_max_cost_above_share(raw: &RawPolicy, policy: &Policy, nodes: u32) -> Option<String> {
    policy.body_cost()?;
    let most = raw.max_cost?;
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

/// Warns if a client that leaves before the cost is reported pays less: the reserve, or `cost_unknown`.
fn warn_leaving_early(raw: &RawPolicy, policy: &Policy) -> Option<String> {
    let (cost, most) = (policy.body_cost()?, raw.max_cost?);
    let least = cost.unknown_min();
    (least < most).then(|| {
        format!(
            "policy `{}`: leaving early is cheaper: a client that leaves before the cost is reported can pay {least} \
             instead of up to {most}, because `reserve` and `cost_unknown` can both be less than `max_cost`: \
             `cost_unknown = {most}` leaves nothing to save",
            policy.name
        )
    })
}

/// Warns of a policy that reads longer requests than a listener can buffer at once, which refuses them.
fn warn_reserve_body_above_buffer(policy: &Policy, listeners: &[Arc<Listener>]) -> Option<String> {
    let cost = policy.body_cost().filter(|cost| cost.reads_requests())?;
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

/// Warns of a quota that clients share and that counts refused requests: one client that retries keeps all out.
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

/// Warns of an override for a network longer than the prefixes by which listeners count clients: it matches nobody.
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
