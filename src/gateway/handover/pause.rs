//! The pause of a hand-over, in which new connections wait for the process that will accept them.

use tokio::sync::watch;

use crate::gateway::control::Phase;

/// Leaves new connections in the queue until it is dropped; then accepting resumes, unless the phase has changed.
pub(super) struct Pause<'p>(&'p watch::Sender<Phase>);

impl<'p> Pause<'p> {
    /// Begins a pause; returns `None` if the process was told to stop meanwhile.
    pub(super) fn begin(phase: &'p watch::Sender<Phase>) -> Option<Self> {
        replace(phase, &Phase::Running, Phase::Paused).then(|| Self(phase))
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        replace(self.0, &Phase::Paused, Phase::Running);
    }
}

/// Replaces the phase `old` by `new`; returns whether the phase was `old`.
fn replace(phase: &watch::Sender<Phase>, old: &Phase, new: Phase) -> bool {
    phase.send_if_modified(|phase| {
        let is_old = phase == old;
        if is_old {
            *phase = new;
        }
        is_old
    })
}
