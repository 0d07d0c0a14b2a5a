//! Tells a mute server from a slow one, and from a worker that was stalled.

/// Finds out, from regular inspections of a connection, whether the server says anything at all.
#[derive(Default)]
pub(super) struct MuteDetector {
    pub(super) inspections: u32,
    /// Whether a batch was answered since the last inspection.
    pub(super) has_progress: bool,
    /// Whether a batch waited for its answer at the last inspection.
    was_waiting: bool,
    /// Inspections in a row that found a batch waiting, and none answered since the one before.
    mute: u32,
    /// Whether the server seemed mute at the last inspection.
    is_doubted: bool,
}

/// What an inspection finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// Nothing is wrong yet.
    Answers,
    /// Either the server is mute, or this worker was stalled and has not read the answers yet.
    Silence,
    /// The server is mute.
    Mute,
}

impl MuteDetector {
    /// Inspects the connection. A server that seems mute is found so only if the next inspection agrees.
    /// `is_waiting` says whether a batch waits for its answer, `is_suspect` whether a caller suspects the server.
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

/// A server seems mute after this many inspections in a row that found a batch waiting and none
/// answered; after one, if a caller suspects the server.
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
        // The answer that the third inspection sees had come before the second, but the worker had not read it.
        let stalled = [busy, silent, busy, silent, silent];
        assert_eq!(
            inspections(&stalled, true),
            [answers, silence, answers, silence, mute]
        );
    }
}
