//! What a policy or an override lets a client do: one of `quota`.

use super::synonyms::synonym;
use super::{QuotaText, ValueError, did_you_mean, quota, quota_pattern};

/// What a client may do: one of `quota`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GrantText {
    /// Spend a quota.
    Quota(QuotaText),
    /// Everything.
    #[default]
    Unlimited,
    /// Nothing.
    Blocked,
}

/// Parses one of `quota`: a quota, `unlimited` or `blocked`.
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

/// What each of `quota` fits, as JSON Schema has regular expressions.
pub fn grant_pattern() -> String {
    format!("{}|^({UNLIMITED}|{BLOCKED})$", quota_pattern())
}

/// How a grant without a bound is spelled.
pub const UNLIMITED: &str = "unlimited";

/// How a grant of nothing is spelled.
pub const BLOCKED: &str = "blocked";
