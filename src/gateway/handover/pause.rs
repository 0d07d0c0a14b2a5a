//! The time in which new connections wait for the process that takes them.

use tokio::sync::watch;

use crate::gateway::control::Phase;

/// New connections are left in the queue as long as this lives, unless the phase has become another one meanwhile.
pub(super) struct Pause<'p>(&'p watch::Sender<Phase>);

impl<'p> Pause<'p> {
    /// Begins one; none in a process that was told to stop meanwhile.
    pub(super) fn begin(phase: &'p watch::Sender<Phase>) -> Option<Self> {
        replace(phase, &Phase::Running, Phase::Paused).then(|| Self(phase))
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        replace(self.0, &Phase::Paused, Phase::Running);
    }
}

/// Puts one phase in the place of another one; says whether that was there.
fn replace(phase: &watch::Sender<Phase>, old: &Phase, new: Phase) -> bool {
    phase.send_if_modified(|phase| {
        let is_old = phase == old;
        if is_old {
            *phase = new;
        }
        is_old
    })
}
