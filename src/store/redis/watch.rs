//! Lets one task of the process find something out for all workers: it asks, and they read what it found.
//!
//! A connection belongs to the thread that opened it, so it is a worker that asks. Each session offers a
//! task ([`Watch::lead`]); one leads, and if its session ends, the task of another takes over. Workers that
//! have reason to doubt what is known say so ([`Watch::want`]), or wait for the end of another round
//! ([`Watch::news`]). However often they do, there is a pause between two rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio::time::{sleep, timeout};

use crate::chance::fraction;

/// What is known, and how workers reach the task that asks.
#[derive(Debug)]
pub(super) struct Watch<T> {
    /// Locked by the task that asks.
    lead: Mutex<()>,
    /// Notified if a worker has reason to doubt what is known.
    wanted: Notify,
    /// Whether what was found last has proved wrong.
    is_contradicted: AtomicBool,
    bulletin: watch::Sender<Bulletin<T>>,
}

/// What the last rounds found, as workers read it.
#[derive(Debug)]
pub(super) struct Bulletin<T> {
    /// What was found last, and the number of the round that found it.
    pub(super) found: Option<(u64, Arc<T>)>,
    /// Why the last round found nothing; none if it found something.
    pub(super) failure: Option<String>,
    rounds: u64,
    phase: WatchPhase,
}

/// How soon the next round is, which tells whether a call should wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchPhase {
    /// A round is under way, or would begin at once.
    Ready,
    /// A round has just found something.
    Fresh,
    /// A round has just found nothing.
    Failed,
}

/// Finds something out, a round at a time.
pub(super) trait Asker {
    /// What a round finds.
    type Found;

    /// Makes one round.
    ///
    /// # Errors
    /// Why nothing was found.
    async fn ask(&mut self) -> Result<Self::Found, String>;

    /// Returns how long to wait, after the least pause, for a worker to want another round; then one begins anyway.
    fn idle(&self) -> Duration;

    /// Logs an outcome: called for the first one, for a success after a failure, and for a failure after a success.
    fn log(&self, outcome: &Result<Self::Found, String>);
}

impl<T> Watch<T> {
    /// Asks for another round soon.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    /// Asks for another round soon because what was found last is wrong.
    pub(super) fn contradict(&self) {
        self.is_contradicted.store(true, Relaxed);
        self.want();
    }

    /// Says whether what was found last has proved wrong since this was last called.
    pub(super) fn take_contradiction(&self) -> bool {
        self.is_contradicted.swap(false, Relaxed)
    }

    /// Waits for the end of another round, unless none would begin at once.
    pub(super) async fn news(&self) {
        let mut bulletins = self.bulletin.subscribe();
        let rounds = {
            let last = bulletins.borrow();
            if last.phase != WatchPhase::Ready {
                return;
            }
            last.rounds
        };
        self.want();
        // Waiting fails only if there is no sender, and `self` has it.
        drop(bulletins.wait_for(|last| last.rounds > rounds).await);
    }

    /// Returns a receiver of what is known now and of everything that is found later.
    pub(super) fn subscribe(&self) -> watch::Receiver<Bulletin<T>> {
        self.bulletin.subscribe()
    }

    /// Says whether another round would begin at once.
    #[cfg(test)]
    pub(super) fn is_ready(&self) -> bool {
        self.bulletin.borrow().phase == WatchPhase::Ready
    }

    /// Waits until no other task leads, and then makes rounds until the future is dropped.
    pub(super) async fn lead(&self, mut asker: impl Asker<Found = T>) {
        let _lead = self.lead.lock().await;
        let mut gap = GAP_MIN;
        loop {
            let outcome = asker.ask().await;
            if self.is_change(&outcome) {
                asker.log(&outcome);
            }
            let is_found = outcome.is_ok();
            self.publish(outcome);
            sleep(spread(if is_found { gap } else { PAUSE_AFTER_FAILURE })).await;
            if is_found {
                self.bulletin.send_if_modified(|last| {
                    last.phase = WatchPhase::Ready;
                    false
                });
                let wanted = timeout(spread(asker.idle()), self.wanted.notified()).await;
                gap = match wanted {
                    Ok(()) => (gap * 2).min(GAP_MAX),
                    Err(_) => GAP_MIN,
                };
            }
        }
    }

    fn is_change(&self, outcome: &Result<T, String>) -> bool {
        let last = self.bulletin.borrow();
        last.rounds == 0 || last.failure.is_none() != outcome.is_ok()
    }

    fn publish(&self, outcome: Result<T, String>) {
        self.bulletin.send_modify(|last| {
            last.rounds += 1;
            match outcome {
                Ok(found) => {
                    last.found = Some((last.rounds, Arc::new(found)));
                    (last.failure, last.phase) = (None, WatchPhase::Fresh);
                }
                Err(failure) => (last.failure, last.phase) = (Some(failure), WatchPhase::Failed),
            }
        });
    }
}

/// Two watches are equal only if they are the same one.
impl<T> PartialEq for Watch<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl<T> Eq for Watch<T> {}

impl<T> Default for Watch<T> {
    fn default() -> Self {
        let (bulletin, _) = watch::channel(Bulletin {
            found: None,
            failure: None,
            rounds: 0,
            phase: WatchPhase::Ready,
        });
        Self {
            lead: Mutex::default(),
            wanted: Notify::new(),
            is_contradicted: AtomicBool::new(false),
            bulletin,
        }
    }
}

/// Shortens a span by up to a quarter, by chance, so that gateways do not ask at the same time.
fn spread(span: Duration) -> Duration {
    span.mul_f64(1.0 - fraction() / 4.0)
}

/// Longest pause after a round that found nothing.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Least pause between two rounds at first; it doubles with each round that a worker wanted, until one begins unasked.
const GAP_MIN: Duration = Duration::from_millis(100);
/// Where the least pause stops doubling, so the longest that a worker waits for the round that it wants to begin.
const GAP_MAX: Duration = Duration::from_secs(1);
