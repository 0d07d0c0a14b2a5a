//! Spans of a server's time as this gateway's clock measures them: it may be a little slower or faster.

use crate::clock::Micros;

/// Returns the least time by this node's clock that a wait by the server's clock takes: the server's may be a little
/// faster.
pub(super) fn shortened(wait: Micros) -> Micros {
    Micros(wait.0 - wait.0 / DRIFT_SHARE)
}

/// Returns the most time that the server's clock may show for a span of this node's clock.
pub(super) fn lengthened(span: Micros) -> Micros {
    Micros(
        span.0
            .saturating_add(span.0 / (DRIFT_SHARE - 1))
            .saturating_add(1),
    )
}

/// Counts a span down, though not to 0: only Redis says when it is over.
pub(super) fn counted_down(span: Micros, elapsed: Micros) -> Micros {
    Micros(span.0.saturating_sub(elapsed.0).max(span.0.min(1)))
}

/// A server's clock runs faster than this gateway's by less than one part in this many (0.8 %): this gateway's is
/// slewed by at most 0.5 %.
const DRIFT_SHARE: u64 = 128;
