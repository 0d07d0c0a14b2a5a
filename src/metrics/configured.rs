//! The configuration in force, for metrics: which one it is, since when, and its quotas.

use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::text::{gauge, gauges};
use crate::clock::{Micros, Timestamp};

/// What is known about the configuration in force.
#[derive(Debug, Default)]
pub(super) struct Configured(Mutex<ConfiguredState>);

#[derive(Debug, Default)]
struct ConfiguredState {
    /// The configuration in force; `None` before the first one is.
    in_force: Option<ConfigInfo>,
    is_rejected: bool,
    quotas: Vec<ConfiguredQuota>,
}

/// A configuration that is in force.
#[derive(Clone, Debug)]
pub struct ConfigInfo {
    /// Hash that identifies the configuration.
    pub hash: Box<str>,
    /// When the configuration came into force, by wall time.
    pub since: Timestamp,
}

/// A quota of a policy.
#[derive(Clone, Debug)]
pub struct ConfiguredQuota {
    /// The policy's name.
    pub policy: Arc<str>,
    /// The quota's name, as clients are told it.
    pub quota: Box<str>,
    /// Units of the quota per window, or in flight.
    pub units: u64,
    /// Length of the window; `None` if the quota has none, as one of units in flight.
    pub window: Option<Micros>,
    /// Units by which clients may exceed a leased or synced quota at most; `None` for other quotas.
    pub overshoot: Option<u64>,
}

impl Configured {
    /// Shows these quotas from now on.
    pub(super) fn show_quotas(&self, quotas: Vec<ConfiguredQuota>) {
        self.with(|state| state.quotas = quotas);
    }

    /// Shows that a configuration is in force from now on.
    pub(super) fn applied(&self, in_force: ConfigInfo) {
        self.with(|state| {
            state.in_force = Some(in_force);
            state.is_rejected = false;
        });
    }

    /// Shows that the latest reload failed.
    pub(super) fn rejected(&self) {
        self.with(|state| state.is_rejected = true);
    }

    /// Renders the series of the configuration.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        self.with(|state| state.encode(encoder))
    }

    fn with<T>(&self, act: impl FnOnce(&mut ConfiguredState) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ConfiguredState {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Units of each quota per window, or in flight, as configured.";
        let mut family = gauges(encoder, "policy_quota_units", help)?;
        for one in &self.quotas {
            let labels = [("policy", &*one.policy), ("quota", &*one.quota)];
            family.encode_family(&labels)?.encode_gauge(&one.units)?;
        }
        let help = "The window of each quota, as configured, in seconds.";
        let mut family = gauges(encoder, "policy_quota_window_seconds", help)?;
        for (one, window) in self
            .quotas
            .iter()
            .filter_map(|one| Some((one, one.window?)))
        {
            let labels = [("policy", &*one.policy), ("quota", &*one.quota)];
            let seconds = std::time::Duration::from(window).as_secs_f64();
            family.encode_family(&labels)?.encode_gauge(&seconds)?;
        }
        let help =
            "Units by which clients may exceed a leased or synced quota at most, as configured.";
        let mut family = gauges(encoder, "policy_quota_overshoot_units", help)?;
        for (one, units) in self
            .quotas
            .iter()
            .filter_map(|one| Some((one, one.overshoot?)))
        {
            let labels = [("policy", &*one.policy), ("quota", &*one.quota)];
            family.encode_family(&labels)?.encode_gauge(&units)?;
        }
        let Some(in_force) = &self.in_force else {
            return Ok(());
        };
        let help = "The configuration in force.";
        let mut info = encoder.encode_descriptor("config", help, None, MetricType::Info)?;
        info.encode_info(&[("hash", &*in_force.hash)])?;
        let help = "1 unless the latest reload was rejected.";
        let name = "config_last_reload_successful";
        gauge(encoder, name, help, (!self.is_rejected).into())?;
        let help = "When the configuration in force was loaded, in seconds since 1970.";
        let name = "config_last_reload_success_timestamp_seconds";
        gauge(
            encoder,
            name,
            help,
            in_force.since.0 / Micros::from_secs(1).0,
        )
    }
}
