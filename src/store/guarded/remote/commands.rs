//! What an operator has Redis do: nobody's request waits for it.

use std::pin::pin;
use std::time::Duration;

use redis::Value;

use super::Remote;
use crate::clock::Timestamp;
use crate::store::guarded::call_metrics::Unanswered;
use crate::store::redis::wire::{DirectiveAction, Settlement};
use crate::store::redis::{CallError, Caller};

impl Remote {
    /// Settles for an operator, who waits.
    pub(in crate::store::guarded) async fn adjust(
        &self,
        settlements: &[Settlement<'_>],
    ) -> Result<Vec<(usize, CallError)>, Unanswered> {
        self.settle_within(COMMAND_TIMEOUT, settlements).await
    }

    /// Makes quotas of one partition whole again; returns when.
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

/// How long an adjustment, a reset, and what is done with directives may take: an operator waits, and no request does.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
