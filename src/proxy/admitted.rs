//! What the limiter's admission means for a request: it goes on, at once or later, or is refused.

use smallvec::SmallVec;

use super::refusal::{Challenge, OverQuota, Refusal};
use crate::clock::Micros;
use crate::index::PolicyIndex;
use crate::limit::Retry;
use crate::limiter::{Admission, Decided};
use crate::snapshot::{PolicyQuota, Snapshot};

/// Returns how long an admitted request is delayed before it goes on.
///
/// # Errors
/// The refusal of a request that is not admitted.
#[expect(
    clippy::inline_always,
    reason = "one busy caller, and each request comes here"
)]
#[inline(always)]
pub(crate) fn admitted(
    snapshot: &Snapshot,
    decided: &Decided,
    admission: Admission,
) -> Result<Micros, Refusal> {
    let name = |policy: PolicyIndex| &*snapshot.policies[policy].name;
    Err(match admission {
        Admission::Admitted { wait } => return Ok(wait),
        Admission::Refused { retry } => {
            let too_large = match retry {
                Retry::Never => decided.too_large(snapshot),
                Retry::After(_) => None,
            };
            let violated: SmallVec<[&PolicyQuota; 4]> = decided.violated(snapshot).collect();
            Refusal::quota_exceeded(&OverQuota {
                retry,
                policy: decided.first_refusing(snapshot),
                violated: &violated,
                is_punished: decided.is_punished(),
                too_large: too_large.as_deref(),
            })
        }
        Admission::Unavailable { retry } => Refusal::limiter_unavailable(retry),
        Admission::Unidentified { policy, choice } => {
            let choice = &snapshot.policies[policy].partition.0[choice];
            Refusal::unidentified(name(policy), Challenge::of(choice))
        }
        Admission::Blocked { policy } => Refusal::blocked(name(policy)),
        Admission::BadCost { policy } => Refusal::bad_cost(name(policy)),
        Admission::UnknownPrice { policy } => Refusal::unknown_price(name(policy)),
    })
}
