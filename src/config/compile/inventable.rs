//! Clients that can be invented: a sender of another value is another client, with all that a new one is granted.

use std::ops::Range;

use crate::config::display;
use crate::config::file::{RawPolicy, Table};
use crate::config::options::POLICY;
use crate::config::report::Report;
use crate::limit::Algorithm;
use crate::request::{ADDRESS_CLAIMS, Choice, Part, PartPattern, Partition, Pattern};
use crate::snapshot::{Grant, Policy};

/// Finds a part that anyone can invent and for which a glob grants something; `by` is what chooses the override.
pub(super) fn glob<'b, 'p>(
    by: &'b Partition,
    granted: impl Iterator<Item = (&'p Pattern, &'p Grant)>,
) -> Option<&'b Part> {
    let mut granting = granted.filter(|(_, grant)| **grant != Grant::Blocked);
    granting.find_map(|(pattern, _)| {
        let mut said = pattern.iter().zip(&by.0);
        said.find_map(|(said, Choice(parts))| {
            let said = said.as_ref().filter(|said| said.is_glob())?;
            parts
                .get(said.alternative())
                .filter(|part| can_be_invented(part))
        })
    })
}

/// Refuses initial credits that a sender could have again and again by inventing clients.
pub(super) fn check_initial(table: &Table<RawPolicy>, policy: &Policy, report: &mut Report) {
    if table.is_incomplete(POLICY.about.title) && !table.has("partition") {
        return;
    }
    if let Some(place) = table.place("initial_credits")
        && grants_initial(&policy.grant)
        && let Some(part) = policy.partition.parts().find(|part| can_be_another(part))
    {
        inventable(part, place, report);
    }
}

/// Refuses such initial credits in an override, which may also list the values of a part. `pattern` is one of
/// `partition`, or `None` if `overrides_by` chooses the override.
pub(super) fn check_override(
    partition: &Partition,
    pattern: Option<&Pattern>,
    (grant, place): (&Grant, &Range<usize>),
    report: &mut Report,
) {
    if !grants_initial(grant) {
        return;
    }
    let is_listed = |at: usize| {
        let said = pattern.and_then(|pattern| pattern.get(at)?.as_ref());
        said.is_some_and(PartPattern::is_one_value)
    };
    let open = partition
        .0
        .iter()
        .enumerate()
        .filter(|(at, _)| !is_listed(*at));
    let mut parts = open.flat_map(|(_, Choice(parts))| parts);
    if let Some(part) = parts.find(|part| can_be_another(part)) {
        inventable(part, place, report);
    }
}

fn grants_initial(grant: &Grant) -> bool {
    let mut quotas = grant.quotas().iter();
    quotas.any(|part| matches!(part.quota.algorithm, Algorithm::Credits { initial: 1.. }))
}

fn inventable(part: &Part, place: &Range<usize>, report: &mut Report) {
    let part = display::part(part);
    let message = format!(
        "a client that sends another `{part}` counts as new, and gets initial credits again"
    );
    let expected = "a partition by a verified claim (`jwt:CLAIM`) or `client-cert`, or an override for each value";
    (report.mistake(place, message, expected))
        .hint("`tollgate keys grant` gives credits to single clients");
}

/// Whether a sender can have as many values of a part as it likes.
fn can_be_another(part: &Part) -> bool {
    !matches!(part, Part::Claim(_) | Part::ClientCert | Part::Route)
}

/// Whether anyone can send any value of a part. Fields with addresses are accepted from trusted peers only.
fn can_be_invented(part: &Part) -> bool {
    match part {
        Part::Header(name) => !ADDRESS_CLAIMS.contains(&name.as_str()),
        part => matches!(part, Part::Cookie(_) | Part::Query(_)),
    }
}
