//! Names of tables, and the places that use them.
//!
//! A file may have thousands of both, so names are found in an index, and there is a bound on how many
//! wrong names are compared with every known name to guess which one was meant.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::config::file::{File, Spanned, Table, UnreadParts};
use crate::config::report::Report;
use crate::config::secrets::redacted;
use crate::config::value::did_you_mean;
use crate::index::{PolicyIndex, UpstreamIndex};

/// A policy that applies to a route or to preflights.
#[derive(Clone)]
pub(super) struct PolicyUse {
    /// Index into the file's policies.
    pub(super) policy: PolicyIndex,
    /// Place where the policy is named, or `None` if it applies by default.
    pub(super) span: Option<Range<usize>>,
}

/// Names of policies and upstreams, by which other tables refer to them.
pub(super) struct TableNames<'f> {
    policies: Tables<'f>,
    upstreams: Tables<'f>,
    /// Parts of the file that could not be read, and may define more names.
    lost: &'f UnreadParts,
    /// How many more wrong names may be compared with all known ones.
    searches: Cell<usize>,
}

/// Names of the tables of one kind.
struct Tables<'f> {
    kind: &'static str,
    table: &'static str,
    /// Names in the file's order.
    names: Vec<&'f str>,
    by_name: HashMap<&'f str, usize>,
}

impl<'f> TableNames<'f> {
    pub(super) fn of(file: &'f File) -> Self {
        Self {
            policies: Tables::new("policy", "policies", file.policies.as_ref()),
            upstreams: Tables::new("upstream", "upstreams", file.upstreams.as_ref()),
            lost: &file.lost,
            searches: Cell::new(SEARCHES_MAX),
        }
    }

    /// Finds the policies that a list names, in the list's order, each once.
    pub(super) fn policies(&self, list: &[Spanned<String>], report: &mut Report) -> Vec<PolicyUse> {
        let mut uses: Vec<PolicyUse> = Vec::new();
        let mut seen = HashSet::new();
        for name in list {
            let Some(policy) = self
                .find(&self.policies, name, report)
                .map(PolicyIndex::from)
            else {
                continue;
            };
            if seen.insert(policy) {
                let span = Some(name.span.clone());
                uses.push(PolicyUse { policy, span });
            } else {
                let message = format!("policy `{}` is listed twice", name.value);
                (report.mistake(&name.span, message, "each policy once"))
                    .hint("remove one of them: a policy counts a request once");
            }
        }
        uses
    }

    /// Finds a policy by its name.
    pub(super) fn policy(
        &self,
        name: &Spanned<String>,
        report: &mut Report,
    ) -> Option<PolicyIndex> {
        self.find(&self.policies, name, report)
            .map(PolicyIndex::from)
    }

    /// Finds an upstream by its name.
    pub(super) fn upstream(
        &self,
        name: &Spanned<String>,
        report: &mut Report,
    ) -> Option<UpstreamIndex> {
        self.find(&self.upstreams, name, report)
            .map(UpstreamIndex::from)
    }

    fn find(
        &self,
        tables: &Tables<'_>,
        name: &Spanned<String>,
        report: &mut Report,
    ) -> Option<usize> {
        let found = tables.by_name.get(name.value.as_str()).copied();
        let Tables { kind, table, .. } = tables;
        if found.is_none() && !self.lost.may_be(table, &name.value) {
            let message = format!("there is no {kind} `{}`", redacted(&name.value));
            let expected = format!("the name of a table `[{table}.NAME]`");
            (report.mistake(&name.span, message, expected)).hint(self.hint(tables, &name.value));
        }
        found
    }

    fn hint(&self, tables: &Tables<'_>, name: &str) -> String {
        let (kind, table, names) = (tables.kind, tables.table, &tables.names);
        if kind == "upstream" && (name.contains("://") || name.contains(':')) {
            let hint =
                "write the name of an `[upstreams.NAME]` here: URLs belong in its `endpoints`";
            return hint.to_owned();
        }
        if names.is_empty() {
            let name = redacted(name);
            return format!("the file has no {kind} yet: add `[{table}.{name}]`");
        }
        let searches = self.searches.get();
        self.searches.set(searches.saturating_sub(1));
        let known = if searches == 0 { &[][..] } else { names };
        did_you_mean(name, known.iter().copied()).unwrap_or_else(|| {
            let listed = names.iter().take(NAMED_MAX).map(|name| format!("`{name}`"));
            let more = if names.len() > NAMED_MAX { ", …" } else { "" };
            let listed = listed.collect::<Vec<_>>().join(", ");
            format!("the file has {listed}{more}")
        })
    }
}

impl<'f> Tables<'f> {
    fn new<T>(kind: &'static str, table: &'static str, tables: &'f [Table<T>]) -> Self {
        let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
        Self {
            kind,
            table,
            by_name: names.iter().copied().zip(0..).collect(),
            names,
        }
    }
}

/// Most names that a hint lists.
const NAMED_MAX: usize = 5;
/// Most wrong names that are compared with all known ones; hints for further ones list some known names instead.
const SEARCHES_MAX: usize = 100;
