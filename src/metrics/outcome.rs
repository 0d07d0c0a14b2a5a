//! What policies do to requests, as it is counted.

/// What a policy did to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOutcome {
    /// The policy's quotas had room.
    Admitted,
    /// One of the policy's quotas refused.
    Refused,
    /// One of the policy's quotas would have refused, but the policy is in shadow.
    ShadowRefused,
    /// One of the policy's quotas was used up, but the request was admitted and marked.
    Marked,
    /// One of the policy's candidates would have refused.
    CandidateRefused,
    /// The policy did not count, because an override says that the client has no limit.
    Unlimited,
    /// The policy refused, because an override blocks the client.
    Blocked,
    /// The policy did not apply, because the request lacks a part of its partition.
    Skipped,
    /// The store could not answer, and the policy is `open` or `closed`.
    Unanswered,
    /// The policy was not asked, because another policy had refused the request already.
    NotAsked,
    /// The policy refused, because the request lacks a part of its partition.
    Unidentified,
}

impl PolicyOutcome {
    /// Every outcome, in the order of the counters.
    pub(super) const ALL: [Self; 11] = [
        Self::Admitted,
        Self::Refused,
        Self::ShadowRefused,
        Self::Marked,
        Self::CandidateRefused,
        Self::Unlimited,
        Self::Blocked,
        Self::Skipped,
        Self::Unanswered,
        Self::NotAsked,
        Self::Unidentified,
    ];

    /// Returns the outcome's word in log and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Refused => "refused",
            Self::ShadowRefused => "shadow_refused",
            Self::Marked => "marked",
            Self::CandidateRefused => "candidate_refused",
            Self::Unlimited => "unlimited",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
            Self::Unanswered => "unanswered",
            Self::NotAsked => "not_asked",
            Self::Unidentified => "unidentified",
        }
    }
}
