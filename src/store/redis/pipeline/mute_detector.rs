//! Tells a mute server from a slow one, and from a worker that stood still.

/// Finds out whether the server says anything at all.
#[derive(Default)]
pub(super) struct MuteDetector {
    pub(super) inspections: u32,
    /// Whether something was answered since the last inspection.
    pub(super) has_progress: bool,
    /// Whether something waited for its answer at the last inspection.
    was_waiting: bool,
    /// Inspections in a row that found something waiting, and nothing answered.
    mute: u32,
    /// Whether the last inspection found the server mute.
    is_doubted: bool,
}

/// What an inspection finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// Nothing is wrong yet.
    Answers,
    /// Either the server is mute, or this worker stood still and has not read its answers yet.
    Silence,
    /// The server is mute.
    Mute,
}

impl MuteDetector {
    /// Inspects once. A server that seems mute is inspected once more before it is called so.
    pub(super) fn inspect(&mut self, is_waiting: bool, is_suspect: bool) -> Liveness {
        self.inspections = self.inspections.saturating_add(1);
        let is_silent = self.was_waiting && is_waiting && !self.has_progress;
        self.mute = if is_silent { self.mute + 1 } else { 0 };
        self.was_waiting = is_waiting;
        self.has_progress = false;
        let is_mute = self.mute >= if is_suspect { 1 } else { MUTE_INSPECTIONS_MAX };
        match (is_mute, std::mem::replace(&mut self.is_doubted, is_mute)) {
            (false, _) => Liveness::Answers,
            (true, false) => Liveness::Silence,
            (true, true) => Liveness::Mute,
        }
    }
}

/// After this many inspections in a row without an answer a connection is replaced; after one if a
/// caller suspects the server.
const MUTE_INSPECTIONS_MAX: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_mute_only_if_something_waits_and_nothing_is_answered() {
        let inspections = |seen: &[(bool, bool)], is_suspect: bool| {
            let mut detector = MuteDetector::default();
            seen.iter()
                .map(|&(is_waiting, has_progress)| {
                    detector.has_progress = has_progress;
                    detector.inspect(is_waiting, is_suspect)
                })
                .collect::<Vec<_>>()
        };
        let (idle, busy, silent) = ((false, false), (true, true), (true, false));
        let (answers, silence, mute) = (Liveness::Answers, Liveness::Silence, Liveness::Mute);
        assert_eq!(inspections(&[idle; 9], true), [answers; 9]);
        assert_eq!(inspections(&[busy; 9], true), [answers; 9]);
        let most = [busy, silent, silent, silent, busy, silent, silent, silent];
        assert_eq!(inspections(&most, false), [answers; 8]);
        assert_eq!(
            inspections(&[silent; 6], false),
            [answers, answers, answers, answers, silence, mute]
        );
        assert_eq!(inspections(&[silent; 3], true), [answers, silence, mute]);
        // What is read at the second inspection was there at the first.
        let stalled = [busy, silent, busy, silent, silent];
        assert_eq!(
            inspections(&stalled, true),
            [answers, silence, answers, silence, mute]
        );
    }
}
