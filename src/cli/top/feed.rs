//! Follows `/api/live`, and connects again when the stream ends.

use std::path::Path;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::text::SafeText;
use super::wire::{LiveHistory, LiveStep};
use crate::cli::client::{AdminClient, AdminEvents, ClientError};

/// An update from a gateway.
#[derive(Debug)]
pub(super) enum LiveUpdate {
    History(LiveHistory),
    Step(Box<LiveStep>),
    /// The stream broke; the next try is after `retry_in`.
    Broken {
        reason: SafeText,
        retry_in: Duration,
    },
}

/// Asks the gateway that runs with the file at `path` for the stream, and waits for its first event, the history.
///
/// # Errors
/// Why there is no stream.
pub(super) async fn begin(path: &Path) -> Result<(AdminEvents, LiveHistory), ClientError> {
    let mut events = AdminClient::of(path)?.follow("/api/live").await?;
    let first = events.next().await?;
    let history = events.read(first.data)?;
    Ok((events, history))
}

/// Passes updates on, and asks for another stream when one breaks, until nobody receives them any more.
pub(super) async fn follow(path: &Path, mut events: AdminEvents, updates: Sender<LiveUpdate>) {
    let mut wait = WAIT_MIN;
    loop {
        let error = loop {
            match next(&mut events).await {
                Ok(Some(update)) => {
                    wait = WAIT_MIN;
                    if updates.send(update).await.is_err() {
                        return;
                    }
                }
                Ok(None) => {}
                Err(error) => break error,
            }
        };
        let mut reason = error.to_string();
        events = loop {
            let broken = LiveUpdate::Broken {
                reason: SafeText::of(&reason),
                retry_in: wait,
            };
            if updates.send(broken).await.is_err() {
                return;
            }
            tokio::time::sleep(wait).await;
            wait = (2 * wait).min(WAIT_MAX);
            match begin(path).await {
                Ok((events, history)) => {
                    if updates.send(LiveUpdate::History(history)).await.is_err() {
                        return;
                    }
                    break events;
                }
                Err(error) => reason = error.to_string(),
            }
        };
    }
}

/// Waits for the next event; returns `None` if it is of a kind that is not shown.
async fn next(events: &mut AdminEvents) -> Result<Option<LiveUpdate>, ClientError> {
    let event = events.next().await?;
    match event.name.as_str() {
        "step" => Ok(Some(LiveUpdate::Step(events.read(event.data)?))),
        // The history of another stream has the steps that this one has lost.
        "missed" => Err(events.missed()),
        _ => Ok(None),
    }
}

/// How long to wait before the stream is asked for again: at first, and after many failures.
const WAIT_MIN: Duration = Duration::from_millis(500);
const WAIT_MAX: Duration = Duration::from_secs(10);
