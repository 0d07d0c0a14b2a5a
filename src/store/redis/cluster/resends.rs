//! Bounds how often a call that was not executed is sent again, and how soon.

use std::time::Duration;

use tokio::time::sleep;

use crate::store::redis::call_error::CallError;

/// How often one call has been sent again.
#[derive(Debug, Default)]
pub(super) struct Resends {
    /// Redirections since the last pause.
    redirections: u32,
    pauses: u32,
}

impl Resends {
    /// Allows one more redirection; pauses before it if there were many, since nodes may send a call in circles.
    pub(super) async fn redirect(&mut self, error: CallError) -> Result<(), CallError> {
        self.redirections += 1;
        if self.redirections <= REDIRECTIONS_MAX {
            return Ok(());
        }
        self.pause(error).await
    }

    /// Pauses, each time twice as long up to [`PAUSE_MAX`]; returns `error` after too many pauses.
    pub(super) async fn pause(&mut self, error: CallError) -> Result<(), CallError> {
        if self.pauses >= PAUSES_MAX {
            return Err(error);
        }
        let pause = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16));
        self.pauses += 1;
        self.redirections = 0;
        sleep(pause.min(PAUSE_MAX)).await;
        Ok(())
    }

    /// Returns the number of pauses so far.
    pub(super) fn pauses(&self) -> u32 {
        self.pauses
    }
}

/// Most redirections that a call follows without a pause.
const REDIRECTIONS_MAX: u32 = 5;
/// Most pauses of one call; usually its caller's deadline comes first.
const PAUSES_MAX: u32 = 500;
/// The first pause; each is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(16);
