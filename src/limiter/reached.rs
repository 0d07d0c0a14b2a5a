//! What is known when a client's use of a quota reaches a threshold, and the observer that notes it.

use std::fmt::Debug;

use crate::limit::{Check, Decision};
use crate::request::Redacted;
use crate::snapshot::{Policy, PolicyQuota, Threshold};

/// Notes thresholds that clients reach.
pub trait ThresholdObserver: Debug {
    /// Notes a threshold that is reached. It may be called for each request of a client that stays at or above it.
    fn reached(&self, reached: &ReachedThreshold<'_>);
}

/// A client's use of a quota that has reached a threshold.
#[derive(Clone, Copy, Debug)]
pub struct ReachedThreshold<'r> {
    /// The threshold.
    pub threshold: Threshold,
    /// The policy that the threshold belongs to.
    pub policy: &'r Policy,
    /// The policy's quota whose use reached the threshold.
    pub quota: &'r PolicyQuota,
    /// The check that was decided.
    pub check: &'r Check<'r>,
    /// What the quota decided.
    pub decision: &'r Decision,
    /// How the client is shown.
    pub name: Redacted<'r>,
}
