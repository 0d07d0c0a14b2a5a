//! How often clients reached thresholds of their quotas.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::DescriptorEncoder;

use super::text::{count, counters};

/// Counts by policy and threshold, in percent, for the thresholds of the configuration in force.
#[derive(Debug, Default)]
pub(super) struct NotificationCounts(Mutex<BTreeMap<(Arc<str>, u8), u64>>);

impl NotificationCounts {
    /// Shows these thresholds from now on, and no others. Those that were shown before keep their counts.
    pub(super) fn show(&self, thresholds: Vec<(Arc<str>, u8)>) {
        self.with(|counts| {
            let kept = |key: (Arc<str>, u8)| {
                let count = counts.get(&key).copied().unwrap_or(0);
                (key, count)
            };
            *counts = thresholds.into_iter().map(kept).collect();
        });
    }

    /// Counts a client that has reached a threshold.
    pub(super) fn count(&self, policy: &Arc<str>, percent: u8) {
        self.with(|counts| {
            if let Some(count) = counts.get_mut(&(Arc::clone(policy), percent)) {
                *count += 1;
            }
        });
    }

    /// Renders the counts.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Clients whose use of a quota reached a threshold of `notify`.";
        let mut family = counters(encoder, "notifications", help)?;
        // Copied, so that counting does not wait for the rendering.
        let counts = self.with(|counts| counts.clone());
        for ((policy, percent), sum) in counts {
            let threshold = format!("{percent}%");
            let labels = [("policy", &*policy), ("threshold", &*threshold)];
            count(&mut family, &labels, sum)?;
        }
        Ok(())
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<(Arc<str>, u8), u64>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
