//! What an operator grants one client for a time: it is written, and counted, as the policy's overrides are.

use super::quotas::{self, Counting};
use super::{holds_requests, series};
use crate::config::file::{File, RawGrant, Spanned};
use crate::config::report::Report;
use crate::config::value::grant;
use crate::index::PolicyIndex;
use crate::limit::plan::SeriesId;
use crate::snapshot::{Grant, Snapshot};
use crate::store::{Series, SeriesRole};

/// Compiles what one client of a policy is granted; `snapshot` is that of `file`. The store is asked for series
/// only if nothing is wrong.
///
/// # Errors
/// What is wrong with `texts`, and what was expected.
pub fn temporary_grant(
    file: &File,
    snapshot: &Snapshot,
    index: PolicyIndex,
    texts: &[String],
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) -> Result<Grant, String> {
    let table = &file.policies[index];
    let mut list = Vec::with_capacity(texts.len());
    for text in texts {
        let value = grant(text).map_err(|wrong| format!("`{text}` {}", wrong.in_a_line()))?;
        list.push(Spanned { value, span: 0..0 });
    }
    if list.is_empty() {
        return Err("no quota is given, expected at least one".to_owned());
    }
    let (mut report, raw) = (Report::default(), RawGrant::default());
    let counting = Counting::of_override(&table.value, &raw);
    let mut grant = quotas::grant(&table.name, &list, &counting, &mut report);
    if let Some(mistake) = report.mistakes().first() {
        return Err(mistake.in_a_line());
    }
    let policy = &snapshot.policies[index];
    let can_come_back = holds_requests(&snapshot.policies) || policy.is_settled();
    if let Grant::Quotas(quotas) = &mut grant {
        for part in quotas {
            part.quota.can_come_back = can_come_back;
            let series = series(&policy.name, SeriesRole::Real, &part.quota);
            part.series_id = series_id_of(&series);
        }
    }
    Ok(grant)
}
