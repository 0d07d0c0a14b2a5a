//! What is known when a client's use of a quota reaches a threshold, and who notes it.

use std::fmt::Debug;

use crate::limit::{Check, Decision};
use crate::request::Redacted;
use crate::snapshot::{Policy, PolicyQuota, Threshold};

/// Notes thresholds that clients reach.
pub trait ThresholdObserver: Debug {
    /// Notes one. It may be called for each request of a client that stays there.
    fn reached(&self, reached: &ReachedThreshold<'_>);
}

/// A client's use of a quota that has reached a threshold.
#[derive(Clone, Copy, Debug)]
pub struct ReachedThreshold<'r> {
    /// Which threshold.
    pub threshold: Threshold,
    /// Of which policy.
    pub policy: &'r Policy,
    /// Which of its quotas.
    pub quota: &'r PolicyQuota,
    /// What was asked.
    pub check: &'r Check<'r>,
    /// What the quota decided.
    pub decision: &'r Decision,
    /// How the client is shown.
    pub name: Redacted<'r>,
}
