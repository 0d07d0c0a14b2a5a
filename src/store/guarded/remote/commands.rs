//! Calls that operators order: no request waits for them.

use std::pin::pin;
use std::time::Duration;

use redis::Value;

use super::Remote;
use crate::clock::Timestamp;
use crate::store::guarded::call_metrics::Unanswered;
use crate::store::redis::wire::{DirectiveAction, Settlement};
use crate::store::redis::{CallError, Caller};

impl Remote {
    /// Settles what an operator ordered, within [`COMMAND_TIMEOUT`]; returns the entries that failed.
    pub(in crate::store::guarded) async fn adjust(
        &self,
        settlements: &[Settlement<'_>],
    ) -> Result<Vec<(usize, CallError)>, Unanswered> {
        self.settle_within(COMMAND_TIMEOUT, settlements).await
    }

    /// Resets quotas of one partition; returns the time of the reset by the clock of Redis.
    pub(in crate::store::guarded) async fn reset(
        &self,
        resets: &[Settlement<'_>],
    ) -> Result<Timestamp, Unanswered> {
        let first = resets.first().ok_or(Unanswered::Unsent)?;
        let caller = Caller::new(&|_| None);
        let resetting = pin!(self.redis.reset(resets, &caller));
        let server = self.server(self.redis.server(first.partition_id));
        self.guard(&server, COMMAND_TIMEOUT, &caller, resetting)
            .await
    }

    /// Reads or changes the fleet's set of directives.
    pub(in crate::store::guarded) async fn directives(
        &self,
        action: DirectiveAction<'_>,
    ) -> Result<Value, Unanswered> {
        if !self.redis.is_known() {
            return Err(Unanswered::Unsent);
        }
        let caller = Caller::new(&|_| None);
        let asking = pin!(self.redis.directives(action, &caller));
        let server = self.server(self.redis.nodes_server());
        self.guard(&server, COMMAND_TIMEOUT, &caller, asking).await
    }
}

/// How long an adjustment, a reset, or a call for directives may take: an operator waits for it, and no request does.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
