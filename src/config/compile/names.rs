//! Names that the file gives tables, and places that use them.

use std::ops::Range;

use crate::config::file::{At, File, Named};
use crate::config::report::{Mistake, Report};
use crate::config::value::did_you_mean;

/// A policy that a route names.
#[derive(Clone)]
pub(super) struct PolicyUse {
    /// Index into the file's policies.
    pub(super) policy: usize,
    /// Where the route names it; none: it is there by default.
    pub(super) span: Option<Range<usize>>,
}

/// Finds the policies that a list names: indices in the list's order, each once.
pub(super) fn policies(file: &File, list: &[At<String>], report: &mut Report) -> Vec<PolicyUse> {
    let mut uses: Vec<PolicyUse> = Vec::new();
    for (at, name) in list.iter().enumerate() {
        let Some(policy) = find("policy", "policies", name, &file.policies, file, report) else {
            continue;
        };
        if list[..at].iter().any(|earlier| earlier.value == name.value) {
            report.add(
                Mistake::at(
                    name.span.clone(),
                    format!("policy `{}` is listed twice", name.value),
                )
                .expected("each policy once")
                .hint("remove one of them: a policy counts a request once"),
            );
            continue;
        }
        uses.push(PolicyUse {
            policy,
            span: Some(name.span.clone()),
        });
    }
    uses
}

/// Finds the upstream of a route.
pub(super) fn upstream(file: &File, name: &At<String>, report: &mut Report) -> Option<usize> {
    find("upstream", "upstreams", name, &file.upstreams, file, report)
}

fn find<T>(
    kind: &str,
    table: &str,
    name: &At<String>,
    tables: &[Named<T>],
    file: &File,
    report: &mut Report,
) -> Option<usize> {
    let found = tables.iter().position(|(at, _)| at.value == name.value);
    // A top level that was not read whole may have lost the very table that is asked for.
    if found.is_none() && !file.incomplete {
        let known: Vec<&str> = tables.iter().map(|(at, _)| at.value.as_str()).collect();
        report.add(
            Mistake::at(
                name.span.clone(),
                format!("there is no {kind} `{}`", name.value),
            )
            .expected(format!("the name of a table `[{table}.NAME]`"))
            .hint(hint(kind, table, &name.value, &known)),
        );
    }
    found
}

fn hint(kind: &str, table: &str, name: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("the file has no {kind} yet: add `[{table}.{name}]`");
    }
    did_you_mean(name, known.iter().copied()).unwrap_or_else(|| {
        let shown = known.iter().take(NAMED_MAX).map(|name| format!("`{name}`"));
        let more = if known.len() > NAMED_MAX { ", …" } else { "" };
        format!(
            "the file has {}{more}",
            shown.collect::<Vec<_>>().join(", ")
        )
    })
}

/// Most names that a hint lists.
const NAMED_MAX: usize = 5;
