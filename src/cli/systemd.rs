//! Notifications to systemd, if that has started the gateway: it is ready, reloads, stops, is another process now, or
//! still makes progress.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior};

/// Says that the gateway serves, with a text on its state.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Says that the file is being read again. [`ready`] ends that.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Says that the gateway stops, with all its processes.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// Says that another process is started, and that this one goes on until that serves.
pub(super) fn upgrading() {
    tell(&[NotifyState::Status("upgrading")]);
}

/// Says that the gateway is another process now.
pub(super) fn main_process(id: u32) {
    tell(&[NotifyState::MainPid(id), NotifyState::Status("listening")]);
}

/// Says why an upgrade failed; this process goes on.
pub(super) fn upgrade_failed(reason: &str) {
    let status = format!("the last upgrade failed: {reason}");
    tell(&[NotifyState::Status(&status)]);
}

/// Says that the gateway makes progress.
pub(super) fn alive() {
    tell(&[NotifyState::Watchdog]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd cannot be told how the gateway is");
    }
}

/// Feeds systemd's watchdog, which restarts the gateway unless it hears in time that all threads make progress.
pub(super) struct Watchdog {
    period: Interval,
    /// Progress of each thread at the last look.
    progress: Vec<u64>,
}

impl Watchdog {
    /// Returns a watchdog, if systemd has one for this process.
    pub(super) fn of_this_process() -> Option<Self> {
        let within: Duration = sd_notify::watchdog_enabled()?;
        let mut period = tokio::time::interval(within / LOOKS_PER_PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self {
            period,
            progress: Vec::new(),
        })
    }

    /// Waits until it is time to look.
    pub(super) async fn due(&mut self) {
        self.period.tick().await;
    }

    /// Tells systemd that the gateway makes progress, if every thread has made some since the last call.
    pub(super) fn feed(&mut self, progress: Vec<u64>) {
        let is_stuck = self
            .progress
            .iter()
            .zip(&progress)
            .any(|(old, new)| old == new);
        if !is_stuck {
            alive();
        }
        self.progress = progress;
    }
}

/// How often the threads' progress is looked at within the time that systemd waits.
const LOOKS_PER_PERIOD: u32 = 3;
