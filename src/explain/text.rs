//! An explanation as text, for people.

use std::fmt::{self, Display, Formatter};

use super::asked::ListenerChoice;
use super::explanation::{
    ClientView, CostView, Explanation, LeftView, LiveView, PolicyView, PreflightView, QuotaView,
    RefusedView, RouteView,
};
use crate::config::display;
use crate::limit::Retry;
use crate::metrics::PolicyOutcome;
use crate::request::route::Mismatch;

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let host = self.host.as_deref().unwrap_or("no host that is served");
        writeln!(f, "request\n  {} {} at {host}", self.method, self.target)?;
        if let Some(path) = &self.path {
            writeln!(f, "  normalised path: {path}")?;
        }
        writeln!(f, "  listener: {}, {}", self.listener, self.listener_choice)?;
        writeln!(f, "  client: {}", self.client)?;
        if let Some(preflight) = self.preflight {
            writeln!(f, "  CORS preflight: {preflight}")?;
        }
        f.write_str("\nroute\n")?;
        match &self.route {
            Some(route) => write!(f, "{route}")?,
            None => f.write_str("  none takes it\n")?,
        }
        if !self.other_routes.is_empty() {
            f.write_str("\nother routes\n")?;
        }
        for (name, mismatch) in &self.other_routes {
            writeln!(f, "  {name}: {mismatch}")?;
        }
        match self.more_routes {
            0 => {}
            1 => f.write_str("  and 1 more, which is not nearer\n")?,
            more => writeln!(f, "  and {more} more, none of them nearer")?,
        }
        if !self.policies.is_empty() {
            f.write_str("\npolicies\n")?;
        }
        for policy in &self.policies {
            write!(f, "{policy}")?;
        }
        f.write_str("\nresult\n")?;
        match (&self.refused, &self.live) {
            (Some(refused), _) => writeln!(f, "  {refused}")?,
            (None, Some(live)) => writeln!(f, "  {live}")?,
            (None, None) if self.policies.iter().all(|policy| policy.quotas.is_empty()) => {
                f.write_str("  forwarded: no quota applies\n")?;
            }
            (None, None) => f.write_str("  not refused before its quotas, which decide\n")?,
        }
        if self.live.is_some_and(|live| live.is_degraded) {
            f.write_str(
                "  the store did not answer: this is what this gateway would say in its place\n",
            )?;
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}

impl Display for ListenerChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named => "which was named",
            Self::Only => "the only one",
            Self::Port => "which has the URL's port",
            Self::Scheme => "assumed: no other one that fits the URL's scheme has its port; `--listener` names another",
            Self::First => "assumed: the first one; `--listener` names another",
        })
    }
}

impl Display for ClientView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}")?,
            None => f.write_str("without an address")?,
        }
        let peer = self.peer.map(|peer| peer.to_string());
        let peer = peer
            .as_deref()
            .unwrap_or("at the other end of the Unix socket");
        match (&self.field, self.is_trusted) {
            (Some(field), true) if self.is_claimed => {
                write!(f, ", as `{field}` says; the peer {peer} is trusted")?;
            }
            (Some(field), true) => {
                write!(f, ", the peer: it is trusted, but `{field}` has no address")?;
            }
            (None, true) => f.write_str(", the peer: no field is trusted")?,
            (Some(field), false) => {
                write!(f, ", the peer: it is not trusted, so `{field}` is ignored")?;
            }
            (None, false) => f.write_str(", the peer")?,
        }
        if !self.is_peer_known && self.peer.is_some() {
            f.write_str(" (assumed: `--from` names another)")?;
        }
        Ok(())
    }
}

impl Display for PreflightView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Announced => {
                "it takes the route of the request that it announces; `preflight_policies` decide it"
            }
            Self::NoPolicies => {
                "decided as any request, because the file has no `preflight_policies`"
            }
            Self::SaysMore => "decided as any request, because it says more than a preflight does",
        })
    }
}

impl Display for RouteView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {} → {}", self.name, self.upstream)?;
        if let Some(path) = &self.forwarded {
            writeln!(f, "  forwarded path: {path}")?;
        }
        f.write_str(match self.is_readable_by_page {
            None => "",
            Some(true) => "  `cors_origins` has the `Origin`, so its page can read refusals\n",
            Some(false) => {
                "  `cors_origins` does not have the `Origin`, so its page cannot read refusals\n"
            }
        })
    }
}

impl Display for Mismatch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("another host"),
            Self::Path { .. } => f.write_str("another path"),
            Self::Method => f.write_str("another method"),
            Self::MethodCase => {
                f.write_str("the method in another case: methods are case-sensitive")
            }
            Self::HeaderValue(name) => write!(f, "`{name}` has another value"),
            Self::NoHeader(name) => write!(f, "`{name}` is missing"),
            Self::LessSpecific => f.write_str("matches too, but is less specific"),
        }
    }
}

impl Display for PolicyView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mode = display::word(display::MODES, &self.mode);
        write!(f, "  {}: {mode}", self.name)?;
        if !self.partition.is_empty() {
            write!(f, ", by {}", self.partition)?;
        }
        f.write_str("\n")?;
        write!(f, "    client: {}", self.client)?;
        if let Some(id) = &self.id {
            write!(f, " ({id})")?;
        }
        f.write_str("\n")?;
        if let Some(matched) = &self.matched {
            writeln!(f, "    override: {matched}")?;
        }
        if let Some(said) = said(self) {
            writeln!(f, "    {said}")?;
        }
        for quota in &self.quotas {
            writeln!(f, "    {quota}")?;
        }
        match &self.cost {
            Some(cost) => write!(f, "{cost}"),
            None => Ok(()),
        }
    }
}

/// Returns what a policy does, if its quotas do not show it.
fn said(policy: &PolicyView) -> Option<&'static str> {
    Some(match policy.outcome {
        None if policy.is_refusing => "refuses",
        None => "not reached: the request is refused before",
        Some(PolicyOutcome::Skipped) => "does not apply: the client lacks a part of the partition",
        Some(PolicyOutcome::Unidentified) => "refuses: the client lacks a part of the partition",
        Some(PolicyOutcome::Unlimited) => "unlimited: nothing is counted",
        Some(PolicyOutcome::Blocked) => "blocked",
        Some(PolicyOutcome::NotAsked) if policy.quotas.is_empty() => return None,
        Some(PolicyOutcome::NotAsked) => "not asked: the request is refused already",
        Some(PolicyOutcome::Marked) if policy.quotas.is_empty() => "would refuse, but only marks",
        Some(PolicyOutcome::ShadowRefused) if policy.quotas.is_empty() => {
            "would refuse, but is in shadow"
        }
        Some(PolicyOutcome::Refused) => "refuses",
        Some(PolicyOutcome::Marked) => "marks",
        Some(PolicyOutcome::ShadowRefused) => "would refuse, but is in shadow",
        Some(PolicyOutcome::Unanswered) => "counts nothing: the store did not answer",
        Some(PolicyOutcome::Admitted | PolicyOutcome::CandidateRefused) => return None,
    })
}

impl Display for QuotaView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_candidate {
            f.write_str("candidate: ")?;
        }
        f.write_str(&display::rate(&self.quota))?;
        if let Some(algorithm) = display::algorithm(&self.quota) {
            write!(f, ", {algorithm}")?;
        }
        match &self.left {
            Some(left) if self.quota.is_penalty() => match left.next {
                Some(left) => write!(f, ": runs for another {}", display::span(left)),
                None => f.write_str(": none runs"),
            },
            Some(left) if self.quota.has_window() => write!(f, ": {left}"),
            Some(left) => write!(f, ": {}", TimelessLeft(left)),
            None => Ok(()),
        }
    }
}

impl Display for LeftView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} left", self.remaining)?;
        match self.next {
            None => f.write_str(", which is all of it")?,
            Some(next) => {
                let (next, whole) = (display::span(next), display::span(self.reset));
                write!(f, ", more in {next}, all in {whole}")?;
            }
        }
        match (self.admit, self.retry) {
            (true, _) => Ok(()),
            (false, Retry::After(retry)) => {
                write!(f, "; the request fits in {}", display::span(retry))
            }
            (false, Retry::Never) => f.write_str("; the request never fits"),
        }
    }
}

/// What is left of a quota that time does not refill.
struct TimelessLeft<'l>(&'l LeftView);

impl Display for TimelessLeft<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(left) = self;
        match left.debt {
            0 => write!(f, "{} left", left.remaining)?,
            debt => write!(f, "{debt} owed")?,
        }
        f.write_str(if left.admit {
            ""
        } else {
            "; the request needs more"
        })
    }
}

impl Display for CostView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let least = if self.is_at_least { "at least " } else { "" };
        writeln!(f, "    cost in {}: {least}{}", self.unit, self.units)?;
        for line in &self.known_later {
            writeln!(f, "      {line}")?;
        }
        Ok(())
    }
}

impl Display for RefusedView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (status, reason) = (self.status.as_u16(), self.reason.word());
        write!(f, "refused with {status} ({reason})")?;
        if let Some(policy) = &self.policy {
            write!(f, " by `{policy}`")?;
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        if !self.quotas.is_empty() {
            write!(f, ": no room in {}", self.quotas.join(", "))?;
        }
        match self.retry_after_secs {
            Some(secs) => write!(f, "; Retry-After: {secs}"),
            None => Ok(()),
        }
    }
}

impl Display for LiveView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.wait.0 {
            0 => f.write_str("admitted now"),
            _ => write!(
                f,
                "admitted now, and delayed by {}",
                display::span(self.wait)
            ),
        }
    }
}
