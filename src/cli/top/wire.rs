//! The data of `/api/live`, as far as it is shown; missing members are 0 or empty.

use serde::Deserialize;

use super::text::SafeText;

/// Counts of each of the last steps, the oldest first.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LiveHistory {
    pub(super) step_ms: u64,
    pub(super) totals: RequestHistory,
    pub(super) policies: Vec<PolicyHistory>,
    pub(super) routes: Vec<RequestHistory>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PolicyHistory {
    pub(super) name: SafeText,
    pub(super) admitted: Vec<u64>,
    pub(super) refused: Vec<u64>,
}

/// History of a route, or of all requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RequestHistory {
    pub(super) name: SafeText,
    pub(super) requests: Vec<u64>,
    pub(super) refused: Vec<u64>,
    pub(super) failed: Vec<u64>,
}

/// Counts of a step, and the gateway's state after it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LiveStep {
    pub(super) time: SafeText,
    pub(super) totals: RequestCounts,
    pub(super) policies: Vec<PolicyCounts>,
    pub(super) routes: Vec<RequestCounts>,
    pub(super) top: TopLists,
    pub(super) notifications: Vec<ShownNotification>,
    pub(super) overview: ShownOverview,
    pub(super) store: ShownStore,
    pub(super) endpoints: ShownEndpoints,
    pub(super) reload: Option<ShownReload>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PolicyCounts {
    pub(super) name: SafeText,
    pub(super) admitted: u64,
    pub(super) refused: u64,
    pub(super) would_refuse: u64,
    pub(super) near_limit: u64,
}

/// Counts of a route, or of all requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RequestCounts {
    pub(super) name: SafeText,
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TopLists {
    pub(super) refused: Vec<RefusedClient>,
    pub(super) nearest: Vec<NearestClient>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RefusedClient {
    pub(super) policy: SafeText,
    pub(super) client: SafeText,
    pub(super) at_least: u64,
    pub(super) at_most: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NearestClient {
    pub(super) policy: SafeText,
    pub(super) client: SafeText,
    pub(super) used_percent: f64,
    pub(super) remaining: u64,
    pub(super) limit: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownNotification {
    pub(super) at: SafeText,
    pub(super) policy: SafeText,
    pub(super) client: SafeText,
    pub(super) quota: SafeText,
    pub(super) threshold_percent: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownOverview {
    pub(super) version: SafeText,
    pub(super) started: SafeText,
    pub(super) ready: bool,
    pub(super) configuration: ShownConfiguration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownConfiguration {
    pub(super) file: SafeText,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownStore {
    pub(super) state: SafeText,
    pub(super) text: SafeText,
    pub(super) decisions_per_second: Option<DecisionRates>,
}

/// How many plans a second are decided in which way.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DecisionRates {
    pub(super) redis: u64,
    pub(super) remembered: u64,
    pub(super) leased: u64,
    pub(super) synced: u64,
    pub(super) late: u64,
    pub(super) failed: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownEndpoints {
    pub(super) total: u64,
    pub(super) available: u64,
    pub(super) troubled: Vec<TroubledEndpoint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TroubledEndpoint {
    pub(super) upstream: SafeText,
    pub(super) name: SafeText,
    pub(super) text: SafeText,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ShownReload {
    pub(super) time: SafeText,
    pub(super) result: SafeText,
    pub(super) source: SafeText,
    pub(super) text: SafeText,
}

impl LiveStep {
    /// Cuts lists that are longer than the gateway's bounds.
    pub(super) fn bound(&mut self) {
        self.top.refused.truncate(NAMES_MAX);
        self.top.nearest.truncate(NAMES_MAX);
        self.notifications.truncate(NAMES_MAX);
        self.endpoints.troubled.truncate(NAMES_MAX);
        self.policies.truncate(NAMES_MAX);
        self.routes.truncate(NAMES_MAX);
    }
}

/// Most entries of each list that are kept.
pub(super) const NAMES_MAX: usize = 100;
