//! Puts directives into a snapshot: overrides for a time go where the file's overrides are.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::directive::{Directive, Ordered};
use crate::config::compile::temporary_grant;
use crate::config::file::File;
use crate::index::PolicyIndex;
use crate::limit::PartitionId;
use crate::limit::plan::SeriesId;
use crate::request::{NamedClient, Part, PartPattern, Partition, Pattern, Patterns, StoredPart};
use crate::snapshot::{Grant, Policy, Snapshot, TemporaryLayer, TemporaryOverrides};
use crate::store::{Series, Store};

/// The file in force and the directives beside it. Whoever changes one of them holds the lock until the
/// configuration that is made of both is in force.
#[derive(Debug)]
pub struct InForce {
    parts: Mutex<InForceParts>,
    /// Notified when a directive was given here, so that it is in force at once.
    pub given: Notify,
    /// Notified when directives have been read, and are in force.
    pub read: Notify,
    /// Whether the store has told its directives since the start.
    pub is_known: AtomicBool,
}

/// What the configuration is made of.
#[derive(Debug)]
pub struct InForceParts {
    /// What the file says.
    pub file: File,
    /// What operators ordered, as far as it has not ended.
    pub directives: Vec<Directive>,
}

impl InForce {
    /// Begins with a file and no directives.
    pub fn new(file: File) -> Self {
        Self {
            parts: Mutex::new(InForceParts {
                file,
                directives: Vec::new(),
            }),
            given: Notify::new(),
            read: Notify::new(),
            is_known: AtomicBool::new(false),
        }
    }

    /// Has the directives read now, and waits, not for long, until those are in force that `has_come` looks for.
    pub async fn comes_to(&self, has_come: impl Fn(&[Directive]) -> bool) {
        self.given.notify_one();
        let coming = async {
            loop {
                let read = self.read.notified();
                if has_come(&self.lock().directives) {
                    return;
                }
                read.await;
            }
        };
        // It is kept in any case, and in force soon.
        let _ = tokio::time::timeout(COMES_WITHIN, coming).await;
    }

    /// Locks both.
    pub fn lock(&self) -> MutexGuard<'_, InForceParts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InForceParts {
    /// Puts the directives into a snapshot of the file.
    pub fn apply_to(&self, snapshot: &mut Snapshot, partition_key: &[u8; 32], store: &Store) {
        let mut series_id_of = |series: &Series| store.series_id(series);
        let (directives, file) = (&self.directives, &self.file);
        apply(directives, file, snapshot, partition_key, &mut series_id_of);
    }
}

/// Puts what directives grant into `snapshot`, which was compiled from `file`, in the place of what it had of
/// them. What they say of policies that are not there, or can no longer be counted, is left out.
fn apply(
    directives: &[Directive],
    file: &File,
    snapshot: &mut Snapshot,
    partition_key: &[u8; 32],
    series_id_of: &mut dyn FnMut(&Series) -> SeriesId,
) {
    let indices: Vec<PolicyIndex> = snapshot.policies.keys().collect();
    for index in indices {
        let mut compiled = Compiled::default();
        for directive in in_order(directives, &snapshot.policies[index]) {
            let Ordered::Grant(texts) = &directive.text.order else {
                continue;
            };
            let grants = &mut compiled.grants;
            let known = compiled.known.get(texts).copied();
            let grant = known.or_else(|| {
                let grant = temporary_grant(file, snapshot, index, texts, series_id_of).ok()?;
                grants.push(grant);
                compiled.known.insert(texts.clone(), grants.len() - 1);
                Some(grants.len() - 1)
            });
            if let Some(grant) = grant {
                compiled.add(directive, &snapshot.policies[index].partition, grant);
            }
        }
        snapshot.policies[index].temporary = compiled.into_overrides(partition_key);
    }
}

/// Returns the states that a reset is about: each of the policy's series with each of the client's ids.
pub fn reset_states(
    directive: &Directive,
    snapshot: &Snapshot,
) -> HashSet<(SeriesId, PartitionId)> {
    let named = |policy: &&Policy| directive.text.policy.as_deref() == Some(&*policy.name);
    let quotas = (snapshot.policies.iter().filter(named)).flat_map(Policy::every_quota);
    quotas
        .flat_map(|quota| {
            let ids = directive.partition_ids();
            ids.map(|partition_id| (quota.series_id, partition_id))
        })
        .collect()
}

/// Whether what a directive says of parts holds for a client of a policy.
pub fn is_about(
    directive: &Directive,
    policy: &Policy,
    client: &NamedClient<'_>,
    partition_key: &[u8; 32],
) -> bool {
    let parts = directive.parts().unwrap_or_default();
    let patterns = patterns(&parts, &policy.partition);
    let found = Patterns::new(&patterns).ok();
    !parts.is_empty()
        && found.is_some_and(|of| of.find_named_digested(client, partition_key).is_some())
}

/// Yields the directives that may be about a policy: those that name it before those for all, and later ones
/// before earlier ones.
fn in_order<'d>(directives: &'d [Directive], policy: &Policy) -> Vec<&'d Directive> {
    let is_about = |directive: &&Directive| match &directive.text.policy {
        Some(name) => **name == *policy.name,
        None => true,
    };
    let mut found: Vec<&Directive> = directives.iter().filter(is_about).collect();
    found.sort_by_key(|one| (one.text.policy.is_none(), u64::MAX - one.text.since_ms));
    found
}

/// The directives of one policy, as they are compiled.
#[derive(Default)]
struct Compiled {
    grants: Vec<Grant>,
    /// The grants by how they are spelled.
    known: HashMap<Vec<String>, usize>,
    layers: [CompiledLayer; 2],
}

/// Clients by their ids, and by patterns, with what each is granted.
type CompiledLayer = (HashMap<PartitionId, usize>, Vec<(Pattern, usize)>);

impl Compiled {
    fn add(&mut self, directive: &Directive, partition: &Partition, grant: usize) {
        let layer = usize::from(self.grants[grant] != Grant::Blocked);
        let (by_id, named) = &mut self.layers[layer];
        let is_of_one_policy = directive.text.policy.is_some();
        let mut ids = directive.partition_ids().peekable();
        if is_of_one_policy && ids.peek().is_some() {
            for id in ids {
                by_id.entry(id).or_insert(grant);
            }
            return;
        }
        let Some(parts) = directive.parts() else {
            return;
        };
        for pattern in patterns(&parts, partition) {
            named.push((pattern, grant));
        }
    }

    fn into_overrides(self, partition_key: &[u8; 32]) -> Option<Arc<TemporaryOverrides>> {
        if self.grants.is_empty() {
            return None;
        }
        let layer = |(by_id, named)| TemporaryLayer::new(by_id, named);
        Some(Arc::new(TemporaryOverrides {
            layers: self.layers.map(layer),
            grants: self.grants,
            partition_key: *partition_key,
        }))
    }
}

/// Makes the patterns of a partition that say this of its parts; none if it does not know one of them. Of a
/// partition of no parts it is all.
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

/// How long whoever orders something waits until it is in force here.
const COMES_WITHIN: Duration = Duration::from_secs(1);
