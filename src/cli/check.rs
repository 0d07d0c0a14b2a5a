//! `tollgate check`: every mistake of a file, or what the file means and guarantees.

mod policies;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::file::load_or;
use super::{EXIT_CONFIG, write_out};
use crate::clock::Clock;
use crate::config::file::{File, RawRoute, RouteCost};
use crate::config::options::STORE;
use crate::config::report::Report;
use crate::config::value::{StoreUrl, ZoneSource, bytes_text};
use crate::config::{Loaded, MissingValues, display};
use crate::request::AddressSource;
use crate::request::jwt::{SigningAlgorithm, TokenVerifier};
use crate::snapshot::{AppliedPolicy, Listener, Route};
use crate::store::settings::{Deployment, Location, Settings};

/// How good a file must be to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Without mistakes; warnings are only printed.
    WarningsPass,
    /// Without mistakes and without warnings.
    WarningsAreMistakes,
}

impl Strictness {
    /// Returns the exit status of a file that has no mistakes, but these warnings.
    pub(super) fn status(self, warnings: &[String]) -> ExitCode {
        match self {
            Self::WarningsAreMistakes if !warnings.is_empty() => ExitCode::from(EXIT_CONFIG),
            _ => ExitCode::SUCCESS,
        }
    }
}

/// Reads the file at `path`; prints its mistakes to standard error, or a summary to standard
/// output. Exits with 0 or 78; a strict check treats warnings as mistakes.
pub fn check(path: &Path, strictness: Strictness, missing: MissingValues) -> ExitCode {
    let loaded = load_or(path, missing, |name, report| {
        write_out(&partial(name, report));
        ExitCode::SUCCESS
    });
    let mut loaded = match loaded {
        Ok(loaded) => loaded,
        Err(status) => return status,
    };
    let expiring = loaded.snapshot.expiring(Clock::system().wall());
    loaded
        .warnings
        .extend(expiring.map(|expiring| expiring.to_string()));
    let summary = summary(&path.display().to_string(), &loaded);
    write_out(&(summary + &time_zones(&loaded.file)));
    strictness.status(&loaded.warnings)
}

/// Says what a file without mistakes means: its listeners, its routes in file order, each quota's
/// guarantee, and its warnings.
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
        out += "  Parts of the file that need these values are incomplete or missing below, and so are their warnings.\n";
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
        policies::policy(&mut out, one, snapshot);
    }
    if !warnings.is_empty() {
        out += "\nwarnings\n";
    }
    for warning in warnings {
        let _ = writeln!(out, "  {warning}");
    }
    out
}

/// Says where the data of each time zone in use comes from; nothing if no zone needs data.
fn time_zones(file: &File) -> String {
    let policies = file.policies.iter().map(|table| &table.value);
    let zones = policies.flat_map(|policy| {
        let own = (policy.quotas()).filter_map(|at| Some(&at.value.time_zone.as_ref()?.value));
        own.chain([&policy.time_zone])
    });
    let mut lines = BTreeSet::new();
    for zone in zones {
        let data = match zone.source {
            ZoneSource::None => continue,
            ZoneSource::System => "the system's data",
            ZoneSource::Program => "this program's own data, as the system has none",
        };
        lines.insert(format!("  {}: {data}\n", zone.name));
    }
    if lines.is_empty() {
        return String::new();
    }
    let lines: String = lines.into_iter().collect();
    format!("\ntime zones\n{lines}")
}

/// Says that a file has no mistakes, but that too many values are missing to sum it up.
pub fn partial(file_name: &str, report: &Report) -> String {
    let opening = opening(file_name, report.given());
    format!("{opening}  Without these values, the file cannot be summed up.\n")
}

/// Says that a file has no mistakes, and which missing values are assumed to be there.
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

/// Says where counters live, but not by which credentials the gateway gets there.
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

/// Says which tokens are accepted: how many keys each algorithm has, in which field tokens come, and for which claims.
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
        format!("{}{cost} ({})", policy.name, policies::whose(policy))
    });
    match policies.collect::<Vec<_>>().join(", ").as_str() {
        "" => out.push_str("    no policy\n"),
        policies => {
            let _ = writeln!(out, "    {policies}");
        }
    }
}

/// Says under which policies a route's cost is spent, if there is more than one.
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
