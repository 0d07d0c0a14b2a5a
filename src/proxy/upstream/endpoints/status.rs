//! The status of the upstreams in force, for people.

use std::sync::Arc;

use super::{EndpointState, Endpoints, UpstreamState};
use crate::clock::Timestamp;

/// The status of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// The upstream's name in the file.
    pub name: Arc<str>,
    /// The upstream's endpoints, as far as their names are resolved.
    pub endpoints: Vec<EndpointStatus>,
    /// An endpoint whose name has no address, and why if that is known.
    pub unresolved: Option<(Box<str>, Option<Arc<str>>)>,
}

/// The status of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Host and port, and the address if the host can have several.
    pub name: Arc<str>,
    /// How many requests it gets for each one that an endpoint of weight 1 gets.
    pub weight: u32,
    /// Whether requests may go to the endpoint now.
    pub is_available: bool,
    /// Whether the endpoint is healthy; it is until checks find that it fails.
    pub is_healthy: bool,
    /// End of the ejection, by wall time; none if the endpoint is not ejected.
    pub ejected_until: Option<Timestamp>,
    /// Time since which requests fail at the endpoint, by wall time; none while they are answered.
    pub failing_since: Option<Timestamp>,
}

impl Endpoints {
    /// Returns the status of the upstreams of origins, in the file's order.
    pub fn status(&self) -> Vec<UpstreamStatus> {
        let upstreams = self.in_force();
        upstreams
            .iter()
            .map(|upstream| self.upstream_status(upstream))
            .collect()
    }

    fn upstream_status(&self, upstream: &UpstreamState) -> UpstreamStatus {
        let members = upstream.members();
        let endpoints = members.list.iter();
        let endpoints = endpoints.map(|member| self.endpoint_status(&member.state, member.weight));
        let unresolved = members.unresolved.clone();
        UpstreamStatus {
            name: Arc::clone(upstream.name()),
            endpoints: endpoints.collect(),
            unresolved: unresolved.map(|name| (name.endpoint, name.error)),
        }
    }

    fn endpoint_status(&self, state: &EndpointState, weight: u32) -> EndpointStatus {
        let now = self.clock.now();
        let wall = |time| self.clock.wall_at(time);
        EndpointStatus {
            name: Arc::clone(&state.name),
            weight,
            is_available: state.is_available(now),
            is_healthy: state.is_healthy(),
            ejected_until: state.ejected_until().filter(|until| *until > now).map(wall),
            failing_since: state.failing_since().map(wall),
        }
    }
}
