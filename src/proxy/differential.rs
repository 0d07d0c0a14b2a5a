//! What differential tests share: cases by seed, how they are changed and cut, and a loop that polls
//! until nothing moves.

#[path = "../../tests/support/draws.rs"]
mod draws;

use std::collections::VecDeque;
use std::env;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

pub use self::draws::Draws;

/// A waker that notes that it was woken.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

/// Runs `compare` with the draws of each seed, and returns for how many it is true, and the number
/// of seeds. `DIFFERENTIAL_SEED` and `DIFFERENTIAL_CASES` try other seeds than the first thousands
/// (`scripts/drill/differential`). A failure names its seed N, and `DIFFERENTIAL_SEED=N
/// DIFFERENTIAL_CASES=1` shows it again.
pub fn for_each_seed(compare: impl Fn(&mut Draws) -> bool) -> (u64, u64) {
    let number = |name: &str, usual: u64| {
        let count = env::var(name);
        count.map_or(usual, |value| value.parse().expect("a number"))
    };
    let first = number("DIFFERENTIAL_SEED", 0);
    let cases = number("DIFFERENTIAL_CASES", 20_000);
    let is_true = |seed| {
        let compared = catch_unwind(AssertUnwindSafe(|| compare(&mut Draws(seed))));
        // What was compared has been printed.
        compared.unwrap_or_else(|_| panic!("the seed is {seed}"))
    };
    let seeds = first..first + cases;
    let count = seeds.filter(|seed| is_true(*seed)).count();
    (count as u64, cases)
}

/// Cuts `bytes` into single ones, and into two pieces at every position.
pub fn every_cut(bytes: &[u8]) -> impl Iterator<Item = VecDeque<Vec<u8>>> {
    let single = bytes.iter().map(|&byte| vec![byte]).collect();
    let two = (1..=bytes.len()).map(|at| {
        let (first, second) = bytes.split_at(at);
        let pieces = [first, second].into_iter().filter(|one| !one.is_empty());
        pieces.map(<[u8]>::to_vec).collect()
    });
    std::iter::once(single).chain(two)
}

/// Calls `turn` until it no longer wakes its own task.
pub fn settle(mut turn: impl FnMut(&mut Context<'_>)) {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    loop {
        turn(&mut cx);
        if !woken.0.swap(false, Ordering::Relaxed) {
            return;
        }
    }
}

impl Draws {
    /// Draws a short range of a sequence of that length.
    fn range(&mut self, length: usize) -> Range<usize> {
        let begin = self.below(length + 1);
        begin..(begin + self.below(8)).min(length)
    }

    /// Changes `bytes` in up to three places, with the help of `parts`.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>, parts: &[&[u8]]) {
        for _ in 0..self.below(4) {
            let part = self.one_of(parts);
            let at = self.range(bytes.len());
            match self.below(5) {
                0 => drop(bytes.splice(at, part.iter().copied())),
                1 => drop(bytes.splice(at.start..at.start, part.iter().copied())),
                2 if !at.is_empty() => bytes[at.start] = part[0],
                3 => drop(bytes.drain(at.start..(at.start + 1).min(at.end))),
                _ => {
                    let again = bytes[at.clone()].to_vec();
                    drop(bytes.splice(at.end..at.end, again));
                }
            }
        }
    }

    /// Cuts `bytes` into pieces.
    pub fn cut(&mut self, mut bytes: &[u8]) -> VecDeque<Vec<u8>> {
        let piece_max = self.one_of(&[1, 3, 20, 10_000]);
        let mut pieces = VecDeque::new();
        while !bytes.is_empty() {
            let at = 1 + self.below(piece_max.min(bytes.len()));
            let (piece, rest) = bytes.split_at(at);
            pieces.push_back(piece.to_vec());
            bytes = rest;
        }
        pieces
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
