//! `tollgate check`: every mistake of a file, or what the file means and guarantees.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use super::{EXIT_CONFIG, unreadable};
use crate::clock::Clock;
use crate::config::file::{RawRoute, RouteCost};
use crate::config::options::STORE;
use crate::config::report::Report;
use crate::config::value::{BLOCKED, StoreUrl, UNLIMITED, bytes_text};
use crate::config::{self, ConfigText, Loaded, MissingValues, display, guarantee};
use crate::limit::Quota;
use crate::limit::plan::SeriesId;
use crate::request::AddressSource;
use crate::request::jwt::{SigningAlgorithm, TokenVerifier};
use crate::snapshot::{AppliedPolicy, Grant, Listener, Overrides, Policy, PolicyMode, Route};
use crate::store::settings::{Deployment, Location, Settings};

/// What a file must be to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Good; of what is probably not meant, it is warned.
    WarningsPass,
    /// Good, and nothing of it warned of.
    WarningsAreMistakes,
}

/// Reads the file at `path`; prints its mistakes to standard error, or a summary to standard
/// output. Exits with 0 or 78; a strict check takes warnings for mistakes.
pub fn check(path: &Path, strictness: Strictness, missing: MissingValues) -> ExitCode {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{}", unreadable(path, &error));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    let config = ConfigText {
        missing,
        ..ConfigText::of(path, &text)
    };
    match config::load(config, &config::environment, &mut |_| SeriesId(0)) {
        Ok(mut loaded) => {
            let expiring = loaded.snapshot.expiring(Clock::system().wall());
            loaded
                .warnings
                .extend(expiring.map(|expiring| expiring.to_string()));
            // A reader that has seen enough may close the pipe.
            let _ = std::io::stdout().write_all(summary(&name, &loaded).as_bytes());
            match strictness {
                Strictness::WarningsAreMistakes if !loaded.warnings.is_empty() => {
                    ExitCode::from(EXIT_CONFIG)
                }
                _ => ExitCode::SUCCESS,
            }
        }
        Err(report) if report.is_empty() => {
            let _ = std::io::stdout().write_all(partial(&name, &report).as_bytes());
            ExitCode::SUCCESS
        }
        Err(report) => {
            let color = std::io::stderr().is_terminal();
            eprint!("{}", report.render(&name, &text, color));
            ExitCode::from(EXIT_CONFIG)
        }
    }
}

/// Says what a good file means: its listeners, its routes in file order, each quota's guarantee,
/// and what is probably not meant.
pub fn summary(file_name: &str, loaded: &Loaded) -> String {
    let Loaded {
        snapshot,
        file,
        warnings,
        included,
        given,
        paths: _,
        is_partial,
        hash: _,
    } = loaded;
    let mut out = opening(file_name, given);
    if *is_partial {
        out += "  What needs one of these is shown in part or not at all, and its warnings are left out.\n";
    }
    if !included.is_empty() {
        out += "\nincluded files\n";
    }
    for name in included {
        let _ = writeln!(out, "  {}", printable(name));
    }
    out += "\nlisteners\n";
    for one in &snapshot.listeners {
        listener(&mut out, one);
    }
    let admin = snapshot.admin.address;
    let admin = admin.map_or_else(|| "off".to_owned(), |address| address.to_string());
    let _ = writeln!(out, "  admin port: {admin}");
    out += "\nstore\n";
    if file.store.has("url") || !file.store.is_incomplete(STORE.about.title) {
        store(&mut out, &file.store.value.url, &snapshot.store);
    }
    if let Some(verifier) = &snapshot.tokens {
        out += "\ntokens\n";
        tokens(&mut out, verifier);
    }
    out += "\nroutes\n";
    for (table, one) in file.routes.iter().zip(&snapshot.routes) {
        route(&mut out, loaded, &table.value, one);
    }
    if let Some(policies) = &snapshot.preflight_policies {
        out += "  CORS preflights of all routes\n";
        applied(&mut out, loaded, policies);
    }
    if !snapshot.policies.is_empty() {
        out += "\npolicies\n";
    }
    for one in &snapshot.policies {
        policy(&mut out, one);
    }
    if !warnings.is_empty() {
        out += "\nwarnings\n";
    }
    for warning in warnings {
        let _ = writeln!(out, "  {warning}");
    }
    out
}

/// Says that nothing is wrong with a file of which too little is there to sum it up.
pub fn partial(file_name: &str, report: &Report) -> String {
    let opening = opening(file_name, report.given());
    format!("{opening}  Too much needs these to sum the file up.\n")
}

/// Says that nothing is wrong, and what is assumed to be there.
fn opening(file_name: &str, given: &[String]) -> String {
    let mut out = format!("{file_name}: no mistakes\n");
    if !given.is_empty() {
        out += "\nassumed to be there\n";
    }
    for name in given {
        let _ = writeln!(out, "  {}", printable(name));
    }
    out
}

/// Shows control characters as escapes.
fn printable(name: &str) -> String {
    let mut printable = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

fn listener(out: &mut String, listener: &Listener) {
    let _ = write!(out, "  {}: {}", listener.name, listener.address);
    if let Some(tls) = &listener.tls {
        let names = tls.certificates.iter().map(|certificate| &certificate.name);
        let _ = write!(out, ", TLS as {}", display::list(names));
        if tls.wants_clients_certificates() {
            out.push_str(", client certificates required");
        }
    }
    if listener.proxy_protocol {
        out.push_str(", behind the PROXY protocol");
    }
    let identity = &listener.identity;
    let source = display::address_source(&identity.source);
    let nets = display::list(identity.trusted_proxies.iter().map(ToString::to_string));
    let from = match (&*identity.trusted_proxies, listener.trusts_every_peer()) {
        ([], false) => String::new(),
        (_, true) if identity.source == AddressSource::Peer => {
            ", clients have no address".to_owned()
        }
        (_, false) => format!(", client by {source} from {nets}"),
        ([], true) => format!(", client by {source} from every peer"),
        (_, true) => format!(", client by {source} from every peer, past {nets}"),
    };
    out.push_str(&from);
    out.push('\n');
}

/// Says where counters live, and never who the gateway is there.
fn store(out: &mut String, url: &StoreUrl, store: &Settings) {
    let _ = write!(out, "  {}", display::store_url(url));
    let Location::Redis(redis) = &store.location else {
        let most = bytes_text(store.max_memory);
        let _ = writeln!(out, ", this process alone, at most {most}");
        return;
    };
    let encryption = match (&redis.tls, &redis.deployment) {
        (Some(_), _) => "encrypted, ",
        (None, Deployment::Unix(_)) => "",
        (None, _) => "not encrypted, ",
    };
    let timeout = display::duration(store.timeout);
    let _ = writeln!(
        out,
        ", {encryption}keys `{}:…`, at most {timeout} for a decision",
        redis.prefix
    );
}

/// Says which tokens verify: by how many keys of each algorithm, where they come, and what they must say.
fn tokens(out: &mut String, verifier: &TokenVerifier) {
    let count = |algorithm| {
        let keys = verifier
            .keys()
            .iter()
            .filter(|key| key.algorithm() == algorithm);
        keys.count()
    };
    let names = SigningAlgorithm::NAMES.into_iter();
    let counted = names.map(|(name, algorithm)| (name, count(algorithm)));
    let keys = counted.filter_map(|(name, count)| match count {
        0 => None,
        1 => Some(format!("{name} by 1 key")),
        _ => Some(format!("{name} by {count} keys")),
    });
    let keys = keys.collect::<Vec<_>>().join(", ");
    let rules = verifier.rules();
    let issuer = rules.issuer.as_deref().unwrap_or("anybody");
    let audience = match rules.audience.as_slice() {
        [] => "anybody".to_owned(),
        audience => display::list(audience),
    };
    let header = &rules.header;
    let _ = writeln!(
        out,
        "  {keys}, in `{header}`, from {issuer}, for {audience}"
    );
}

fn route(out: &mut String, loaded: &Loaded, raw: &RawRoute, route: &Route) {
    let upstream = &loaded.file.upstreams[route.upstream];
    let endpoints = display::endpoints(&upstream.value.endpoints);
    let _ = writeln!(out, "  {} → {} {endpoints}", route.name, upstream.name);
    applied(out, loaded, &route.policies);
    if let Some(RouteCost::Each(units)) = raw.cost {
        shared_cost(out, loaded, route, units);
    }
}

/// Says which policies apply, and what a request costs there.
fn applied(out: &mut String, loaded: &Loaded, policies: &[AppliedPolicy]) {
    let policies = policies.iter().map(|applied| {
        let policy = &loaded.snapshot.policies[applied.policy];
        let is_replaced = policy.body_cost().is_some() && applied.body_cost.is_none();
        let cost = match (applied.cost, &policy.reported_cost) {
            (cost, Some(_)) if is_replaced => format!(" at cost {cost}"),
            (1, _) | (_, Some(_)) => String::new(),
            (cost, None) => format!(" at cost {cost}"),
        };
        format!("{}{cost} ({})", policy.name, whose(policy))
    });
    match policies.collect::<Vec<_>>().join(", ").as_str() {
        "" => out.push_str("    no policy\n"),
        policies => {
            let _ = writeln!(out, "    {policies}");
        }
    }
}

/// Says of which policies a route's number is spent, if that is more than one.
fn shared_cost(out: &mut String, loaded: &Loaded, route: &Route, units: u64) {
    let policies = route.policies.iter();
    let policies = policies.map(|applied| &loaded.snapshot.policies[applied.policy]);
    let policies = policies.filter(|policy| policy.reported_cost.is_none());
    let names: Vec<&str> = policies.map(|policy| &*policy.name).collect();
    if let [first, _, ..] = &names[..] {
        let all = names.join(", ");
        let _ = writeln!(
            out,
            "    `cost = {units}` is spent of each: {all}; `cost = {{ {first} = {units} }}` spends it of one"
        );
    }
}

/// Says whose quota a policy counts.
fn whose(policy: &Policy) -> String {
    match policy.partition.0.as_slice() {
        [] => "one for all".to_owned(),
        _ => format!("by {}", display::partition(&policy.partition)),
    }
}

fn policy(out: &mut String, policy: &Policy) {
    let _ = write!(out, "  {}: {}", policy.name, whose(policy));
    match policy.mode {
        Some(PolicyMode::Enforce) => {}
        mode => {
            let _ = write!(out, ", {}", display::word(display::MODES, &mode));
        }
    }
    out.push('\n');
    match policy.grant {
        Grant::Quotas(_) => {}
        Grant::Unlimited => *out += "    unlimited without an override\n",
        Grant::Blocked => *out += "    blocked without an override\n",
    }
    for part in policy.grant.quotas() {
        quota(out, &part.quota, "");
    }
    for part in &policy.candidates {
        quota(out, &part.quota, "candidate: ");
    }
    let costs = policy.reported_cost.as_ref().map(guarantee::reported_cost);
    let answers = guarantee::counted_answers(&policy.counted_answers);
    for text in costs.into_iter().flatten().chain(answers) {
        let _ = writeln!(out, "    {text}");
    }
    let quotas: Vec<_> = policy
        .grant
        .quotas()
        .iter()
        .map(|part| part.quota)
        .collect();
    if let Some(advice) = guarantee::advice(&quotas) {
        let _ = writeln!(out, "    {advice}");
    }
    if let Some(overrides) = &policy.overrides {
        self::overrides(out, overrides);
    }
}

fn overrides(out: &mut String, overrides: &Overrides) {
    let count = overrides.patterns.len();
    let s = if count == 1 { "" } else { "s" };
    let _ = write!(out, "    {count} override{s}");
    if let Some(by) = &overrides.by {
        let by: Vec<_> = by.0.iter().map(display::choice).collect();
        let _ = write!(out, " by {}", by.join(", "));
    }
    let of = |grant: Grant| {
        let grants = overrides
            .grant_of
            .iter()
            .map(|index| &overrides.grants[*index as usize]);
        grants.filter(|one| **one == grant).count()
    };
    let words = [
        (of(Grant::Unlimited), UNLIMITED),
        (of(Grant::Blocked), BLOCKED),
    ];
    let words = words.iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> = words
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if !words.is_empty() {
        let _ = write!(out, ": {}", words.join(", "));
    }
    out.push('\n');
}

fn quota(out: &mut String, quota: &Quota, role: &str) {
    let algorithm = display::word(display::ALGORITHMS, &quota.algorithm.into());
    let (rate, guarantee) = (display::rate(quota), guarantee::guarantee(quota));
    let _ = writeln!(out, "    {role}{rate}, {algorithm}: {guarantee}");
}
