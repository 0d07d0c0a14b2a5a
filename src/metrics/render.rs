//! Metrics as text: sums the shards, series by series.
//!
//! The encoder escapes label values; names and help are constants.

use std::fmt::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;

use super::duration::RouteTotal;
use super::exposition::{Exposition, text_of};
use super::route::{STATUS_CLASSES, UNROUTED_NAME};
use super::text::{count, counter, counters, gauge};
use super::{MetricSeries, Metrics, PolicyMetrics, PolicyOutcome};
use super::{endpoint, listener, store, upstream};
use crate::build_info;
use crate::clock::monotonic;
use crate::cost::MissingCost;
use crate::fault::Reason;

impl Metrics {
    /// Renders every series.
    pub fn render(&self, exposition: Exposition) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail, and nothing else in the collector does.
        let _ = text::encode(&mut out, &self.registry);
        match exposition {
            Exposition::OpenMetrics => out,
            Exposition::Text => text_of(&out),
        }
    }
}

impl Collector for MetricSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let encoder = &mut encoder;
        let mut build =
            encoder.encode_descriptor("build", "The running version.", None, MetricType::Info)?;
        build.encode_info(&[("version", build_info::VERSION)])?;
        self.encode_requests(encoder)?;
        self.encode_errors(encoder)?;
        self.refused.encode(encoder)?;
        listener::encode(encoder, &self.listeners.all())?;
        self.certificates.encode(encoder)?;
        upstream::encode(encoder, &self.upstreams.all())?;
        endpoint::encode(encoder, &self.endpoints.all())?;
        self.configured.encode(encoder)?;
        self.notifications.encode(encoder)?;
        self.encode_process(encoder)
    }
}

impl MetricSeries {
    fn encode_requests(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        self.encode_routes(encoder)?;
        let help = "Decisions by policy and outcome.";
        let mut family = counters(encoder, "decisions", help)?;
        let policies = self.policies.all();
        for (name, policy) in &policies {
            for outcome in PolicyOutcome::ALL {
                let labels = [("policy", &**name), ("outcome", outcome.word())];
                count(&mut family, &labels, policy.total(outcome))?;
            }
        }
        let help = "Requests admitted by a policy after which at least 80 % of one of its quotas was used.";
        let mut family = counters(encoder, "near_limit", help)?;
        for (name, policy) in &policies {
            count(
                &mut family,
                &[("policy", &**name)],
                policy.near_limit_total(),
            )?;
        }
        let help = "Units refunded because of the response, by policy.";
        let mut family = counters(encoder, "refunded_units", help)?;
        for (name, policy) in &policies {
            let sum = policy.0.sum(|shard| &shard.refunded_units);
            count(&mut family, &[("policy", &**name)], sum)?;
        }
        encode_reservations(encoder, &policies)?;
        Ok(())
    }

    fn encode_routes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family = counters(encoder, "requests", "Requests by route and status class.")?;
        let mut routes = self.routes.all();
        routes.push((UNROUTED_NAME.into(), self.unrouted.clone()));
        let mut totals = Vec::with_capacity(routes.len());
        for (name, route) in &routes {
            let mut requests = 0;
            for (index, class) in STATUS_CLASSES.into_iter().enumerate() {
                let labels = [("route", &**name), ("class", class)];
                let sum = route.shards.sum(|shard| &shard.classes[index]);
                count(&mut family, &labels, sum)?;
                requests += sum;
            }
            totals.push(RouteTotal {
                name,
                route,
                requests,
            });
        }
        let help = "Requests that a limit refused, by route.";
        let mut family = counters(encoder, "route_refusals", help)?;
        for (name, route) in &routes {
            count(&mut family, &[("route", &**name)], route.refused_total())?;
        }
        // The last one is not of a route, but of requests without one.
        totals.pop();
        self.durations.rank(&totals, monotonic());
        self.durations.encode(encoder, UNROUTED_NAME)
    }

    fn encode_errors(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Requests that were refused or broke off, by reason and fault.";
        let mut family = counters(encoder, "errors", help)?;
        for reason in Reason::ALL {
            let labels = [("reason", reason.word()), ("fault", reason.fault().word())];
            let sum = self.process.sum(|shard| &shard.errors.0[reason.index()]);
            count(&mut family, &labels, sum)?;
        }
        let help = "Errors in the message itself, by reason.";
        let mut family = counters(encoder, "malformed", help)?;
        for reason in Reason::ALL.into_iter().filter(|one| one.is_malformed()) {
            let sum = self.process.sum(|shard| &shard.errors.0[reason.index()]);
            count(&mut family, &[("reason", reason.word())], sum)?;
        }
        Ok(())
    }

    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let waiting =
            (self.process).current(|shard| &shard.delayed_entered, |shard| &shard.delayed_left);
        let help = "Requests that are being delayed by leaky-bucket policies.";
        gauge(encoder, "requests_delayed", help, waiting)?;
        let help = "Panics that ended a connection.";
        counter(
            encoder,
            "panics",
            help,
            self.process.sum(|shard| &shard.panics),
        )?;
        let mut family = counters(
            encoder,
            "reloads",
            "Reloads of the configuration by result.",
        )?;
        for (result, reloads) in [
            ("applied", &self.reloads_applied),
            ("rejected", &self.reloads_rejected),
        ] {
            count(&mut family, &[("result", result)], reloads.load(Relaxed))?;
        }
        if let Some(dropped) = self.log_lines_dropped.get() {
            let help = "Log lines lost because the output did not keep up or failed.";
            counter(encoder, "log_lines_dropped", help, dropped.load(Relaxed))?;
        }
        if let Some(store) = self.store.get() {
            store::encode(encoder, &(store.0)())?;
        }
        Ok(())
    }
}

fn encode_reservations(
    encoder: &mut DescriptorEncoder<'_>,
    policies: &[(Arc<str>, PolicyMetrics)],
) -> Result<(), Error> {
    let help = "Units reserved until a body reported the cost, by policy.";
    let mut family = counters(encoder, "reserved_units", help)?;
    for (name, policy) in policies {
        let sum = policy.0.sum(|shard| &shard.reserved_units);
        count(&mut family, &[("policy", &**name)], sum)?;
    }
    let help = "Units charged in the end by policies that reserve, by policy.";
    let mut family = counters(encoder, "charged_units", help)?;
    for (name, policy) in policies {
        let sum = policy.0.sum(|shard| &shard.charged_units);
        count(&mut family, &[("policy", &**name)], sum)?;
    }
    let help = "Responses whose body reported more than max_cost, by policy.";
    let mut family = counters(encoder, "capped_costs", help)?;
    for (name, policy) in policies {
        let sum = policy.0.sum(|shard| &shard.capped_costs);
        count(&mut family, &[("policy", &**name)], sum)?;
    }
    let help = "Responses that did not report what the request cost, by policy and reason.";
    let mut family = counters(encoder, "cost_missing", help)?;
    for (name, policy) in policies {
        let is_reserving = policy.0.sum(|shard| &shard.reserved_units) > 0;
        for missing in MissingCost::ALL {
            let sum = policy.0.sum(|shard| &shard.missing_costs[missing as usize]);
            // Most policies reserve nothing.
            if is_reserving || sum > 0 || missing == MissingCost::Header {
                let labels = [("policy", &**name), ("reason", missing.word())];
                count(&mut family, &labels, sum)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
