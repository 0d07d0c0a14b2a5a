//! What systemd is told, if it has started the gateway: that it is ready, reloads, stops, is another process now, and
//! still makes progress.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior};

/// Says that the gateway serves, and how it is.
pub(super) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Says that the file is being read again. [`ready`] ends that.
pub(super) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Says that the gateway stops: all its processes.
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

/// Says why this process goes on.
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

/// systemd restarts the gateway unless it is told, a few times in a period, that all threads make progress.
pub(super) struct Watchdog {
    period: Interval,
    /// How far each thread had come when it was last looked at.
    progress: Vec<u64>,
}

impl Watchdog {
    /// Returns it, if systemd wants to be told.
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

    /// Says that the gateway makes progress, if every thread has.
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

/// How often all threads are looked at within the time that systemd waits.
const LOOKS_PER_PERIOD: u32 = 3;
