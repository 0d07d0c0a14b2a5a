//! Writes costs in the file's words.

use std::fmt::Write as _;

use crate::config::file::RouteCost;
use crate::config::value::CostText;
use crate::cost::{Amount, NumberSource, Sum, Take};
use crate::snapshot::CostSource;

/// Writes `cost`: `5`, `response-header:x-cost`.
pub fn cost(cost: &CostText) -> String {
    match cost {
        CostText::Units(units) => units.to_string(),
        CostText::Reported(CostSource::Request, name) => format!("request-header:{name}"),
        CostText::Reported(CostSource::Response, name) => format!("response-header:{name}"),
        CostText::Body(sum) => self::sum(sum),
    }
}

/// Writes a number of units, or the terms that make it: `0.25 × request-bytes + request-json:/max_tokens`.
pub fn amount(amount: &Amount<NumberSource>) -> String {
    match amount {
        Amount::Units(units) => units.to_string(),
        Amount::Reported(sum) => self::sum(sum),
    }
}

/// Writes terms that are added: `3 × response-json:/read - 0.5 × response-json:/cached (or 0)`.
pub fn sum(sum: &Sum<NumberSource>) -> String {
    let mut text = String::new();
    for (index, term) in sum.terms.iter().enumerate() {
        let times = term.times.to_string();
        let (sign, times) = match (index, times.strip_prefix('-')) {
            (0, _) => ("", &*times),
            (_, Some(times)) => (" - ", times),
            (_, None) => (" + ", &*times),
        };
        text.push_str(sign);
        if times != "1" {
            let _ = write!(text, "{times} × ");
        }
        if let Some(price) = &term.price {
            let _ = write!(text, "{price} × ");
        }
        text.push_str(&sources(&term.sources));
        if term.take == Take::Last {
            text.push_str(" (the last)");
        }
        if let Some(or) = &term.or {
            let _ = write!(text, " (or {or})");
        }
    }
    text
}

/// Writes where a number is reported: `response-json:/a | /b`.
pub fn sources(sources: &[NumberSource]) -> String {
    let mut text = String::new();
    for (index, source) in sources.iter().enumerate() {
        let source = source.to_string();
        let _ = match (index, source.split_once(':')) {
            (0, _) | (_, None) => write!(text, "{source}"),
            (_, Some((_, pointer))) => write!(text, " | {pointer}"),
        };
    }
    text
}

/// Writes `cost` of a route: `10`, `{ per-key = 10 }`.
pub fn route_cost(cost: &RouteCost) -> String {
    match cost {
        RouteCost::Each(units) => units.to_string(),
        RouteCost::OfPolicies(list) => {
            let entries = list
                .iter()
                .map(|(name, units)| format!("{} = {units}", name.value));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}
