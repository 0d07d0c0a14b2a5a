//! Puts directives into a snapshot: temporary overrides are put where the file's overrides are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::active_sources::ConfigSources;
use super::directive::{Directive, DirectiveKind};
use crate::config::compile::{GrantsBeside, checks_left_for, temporary_grant};
use crate::config::display;
use crate::index::PolicyIndex;
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::request::{NamedClient, Part, PartPattern, Partition, Pattern, Patterns, StoredPart};
use crate::snapshot::{BLOCKED, Policy, Snapshot, TemporaryClients, TemporaryOverrides};
use crate::store::{Series, Store};

impl ConfigSources {
    /// Puts what directives grant into a snapshot of the file, in place of any earlier directives. Grants for policies
    /// that do not exist, or with quotas that can no longer be counted, are left out.
    pub fn apply_to(&self, snapshot: &mut Snapshot, partition_key: &[u8; 32], store: &Store) {
        let mut by_policy: HashMap<&str, Vec<&Directive>> = HashMap::new();
        let mut everywhere = Everywhere::default();
        for directive in in_order(&self.directives) {
            match &directive.text.policy {
                Some(policy) => by_policy.entry(policy).or_default().push(directive),
                None if directive.blocks() => everywhere.blocked.extend(directive.parts()),
                None => {}
            }
        }
        // All are cleared first, because what one of a route's policies may add depends on what the others have.
        for policy in &mut snapshot.policies {
            policy.temporary = None;
        }
        let indices: Vec<PolicyIndex> = snapshot.policies.keys().collect();
        for index in indices {
            let policy = &snapshot.policies[index];
            let everywhere = everywhere.of(&policy.partition);
            let mut overrides = TemporaryOverrides::new(everywhere, partition_key);
            if let Some(own) = by_policy.get(&*policy.name) {
                self.add(own, snapshot, index, store, &mut overrides);
            }
            let is_empty = overrides.is_empty();
            snapshot.policies[index].temporary = (!is_empty).then(|| Arc::new(overrides));
        }
    }

    /// Adds what is ordered for clients of one policy.
    fn add(
        &self,
        directives: &[&Directive],
        snapshot: &Snapshot,
        index: PolicyIndex,
        store: &Store,
        overrides: &mut TemporaryOverrides,
    ) {
        let policy = &snapshot.policies[index];
        let (mut blocked, mut granted) = (Collected::default(), Collected::default());
        // Indices of the grants that are compiled already, by how they are spelled.
        let mut known: HashMap<&[String], usize> = HashMap::new();
        let room = checks_left_for(snapshot, index);
        for directive in directives {
            let DirectiveKind::Grant(texts) = &directive.text.kind else {
                continue;
            };
            if directive.blocks() {
                blocked.add(directive, &policy.partition, BLOCKED);
                continue;
            }
            let grant = known.get(&**texts).copied().or_else(|| {
                let grants = &mut overrides.grants;
                let (beside, file) = (GrantsBeside { room, grants }, &self.file);
                let mut series_id_of = |series: &Series| store.series_id(series);
                let grant =
                    temporary_grant(file, snapshot, index, texts, beside, &mut series_id_of);
                grants.push(grant.ok()?);
                known.insert(texts, grants.len() - 1);
                Some(grants.len() - 1)
            });
            if let Some(grant) = grant {
                granted.add(directive, &policy.partition, grant);
            }
        }
        overrides.blocked = blocked.clients();
        overrides.granted = granted.clients();
    }
}

/// Blocks under every policy that knows the parts, compiled once for each partition.
#[derive(Default)]
struct Everywhere {
    blocked: Vec<Vec<(Part, StoredPart)>>,
    compiled: HashMap<String, Arc<Patterns>>,
}

impl Everywhere {
    fn of(&mut self, partition: &Partition) -> Arc<Patterns> {
        if self.blocked.is_empty() {
            return Arc::default();
        }
        let blocked = &self.blocked;
        let compile = || {
            let all = blocked.iter().flat_map(|parts| patterns(parts, partition));
            Arc::new(Patterns::first_of_equal(all.collect()).0)
        };
        let spelled = display::partition(partition);
        Arc::clone(self.compiled.entry(spelled).or_insert_with(compile))
    }
}

/// Clients, by ids and by patterns, each with the index of what it is granted.
#[derive(Default)]
struct Collected {
    by_id: HashMap<PartitionId, usize>,
    named: Vec<(Pattern, usize)>,
}

impl Collected {
    fn add(&mut self, directive: &Directive, partition: &Partition, grant: usize) {
        let mut ids = directive.partition_ids().peekable();
        if ids.peek().is_some() {
            for id in ids {
                self.by_id.entry(id).or_insert(grant);
            }
        } else if let Some(parts) = directive.parts() {
            let patterns = patterns(&parts, partition).into_iter();
            self.named.extend(patterns.map(|pattern| (pattern, grant)));
        }
    }

    fn clients(self) -> TemporaryClients {
        TemporaryClients::new(self.by_id, self.named)
    }
}

/// Returns the states that a reset affects: each series of the policy, with each partition id of the client.
pub fn reset_states(
    directive: &Directive,
    snapshot: &Snapshot,
) -> HashSet<(SeriesId, PartitionId)> {
    let named = |policy: &&Policy| directive.text.policy.as_deref() == Some(&*policy.name);
    let quotas = (snapshot.policies.iter().filter(named)).flat_map(Policy::every_quota);
    quotas
        // Other quotas are not reset, so their charges can be given back as usual.
        .filter(|(quota, _)| quota.is_cleared_by_reset())
        .flat_map(|(_, series_id)| {
            let ids = directive.partition_ids();
            ids.map(move |partition_id| (series_id, partition_id))
        })
        .collect()
}

/// Whether a directive that names parts applies to a client of a policy.
pub(super) fn is_about(
    directive: &Directive,
    policy: &Policy,
    client: &NamedClient<'_>,
    partition_key: &[u8; 32],
) -> bool {
    let parts = directive.parts().unwrap_or_default();
    let patterns = patterns(&parts, &policy.partition);
    let found = Patterns::new(&patterns).ok();
    !parts.is_empty() && found.is_some_and(|of| of.find_digested(client, partition_key).is_some())
}

/// Returns later directives before earlier ones, because the later one counts if both are for one client.
fn in_order(directives: &[Directive]) -> Vec<&Directive> {
    let mut sorted: Vec<&Directive> = directives.iter().collect();
    sorted.sort_by_key(|one| std::cmp::Reverse(one.text.since_ms));
    sorted
}

/// Makes the patterns of a partition that require this of its parts. There are none if the partition lacks one of the
/// parts; if no parts are named, one pattern matches all clients.
fn patterns(parts: &[(Part, StoredPart)], partition: &Partition) -> Vec<Pattern> {
    let mut patterns: Vec<Pattern> = vec![vec![None; partition.0.len()]];
    for (part, is) in parts {
        let place = partition.0.iter().enumerate().find_map(|(item, choice)| {
            let alternative = choice.0.iter().position(|one| one == part)?;
            Some((item, alternative))
        });
        let Some((item, alternative)) = place else {
            return Vec::new();
        };
        let Ok(said): Result<Vec<PartPattern>, _> = is.patterns(part, alternative) else {
            return Vec::new();
        };
        patterns = (patterns.iter())
            .flat_map(|pattern| {
                said.iter().map(move |said| {
                    let mut pattern = pattern.clone();
                    pattern[item] = Some(said.clone());
                    pattern
                })
            })
            .collect();
    }
    patterns
}
