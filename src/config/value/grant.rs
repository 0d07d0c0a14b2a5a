//! What a policy or an override lets a client do: one item of `quota`.

use super::synonyms::synonym;
use super::{QuotaText, ValueError, did_you_mean, quota, quota_pattern};

/// What a client may do: one item of `quota`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GrantText {
    /// Spend a quota.
    Quota(QuotaText),
    /// Send any number of requests.
    #[default]
    Unlimited,
    /// Send no request.
    Blocked,
}

/// Parses one item of `quota`: a quota, `unlimited` or `blocked`.
pub fn grant(text: &str) -> Result<GrantText, ValueError> {
    match text {
        UNLIMITED => Ok(GrantText::Unlimited),
        BLOCKED => Ok(GrantText::Blocked),
        _ => quota(text).map(GrantText::Quota).map_err(|mut wrong| {
            let words = [UNLIMITED, BLOCKED];
            let other = || synonym(text, &words).map(|meant| format!("did you mean `{meant}`?"));
            let meant = || other().or_else(|| did_you_mean(text, words));
            wrong.hint = wrong.hint.or_else(meant);
            wrong
        }),
    }
}

/// JSON Schema pattern that every item of `quota` matches.
pub fn grant_pattern() -> String {
    format!("{}|^({UNLIMITED}|{BLOCKED})$", quota_pattern())
}

/// Spelling of a grant without a bound.
pub const UNLIMITED: &str = "unlimited";

/// Spelling of a grant of nothing.
pub const BLOCKED: &str = "blocked";
