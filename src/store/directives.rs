//! Directives: what operators ordered for single clients (temporary overrides, blocks, resets), as a store keeps them
//! for all that share it. The store knows the id and the end of each, but not what its text means.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// A directive as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDirective {
    /// The id; another directive with the same id replaces this one.
    pub id: String,
    /// Until when it is kept.
    pub until: Timestamp,
    /// The order itself, which the store does not interpret.
    pub text: String,
}

/// All directives that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectiveSet {
    /// Rises with every change; 0 if there never was a directive, or the store has forgotten them.
    pub version: u64,
    /// The directives, in no order.
    pub entries: Vec<StoredDirective>,
}

/// Why the store did not do what operators ordered for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveError {
    /// There are too many directives; none is dropped to make room for another.
    #[error("there are {DIRECTIVES_MAX} directives already: remove one, or wait until one ends")]
    Full,
    /// The store cannot be asked.
    #[error("Redis cannot be reached, or does not let the gateway's user do this (see the log)")]
    Unreachable,
}

/// The directives of a process that does not share its store.
#[derive(Debug, Default)]
pub(super) struct LocalDirectives(Mutex<DirectiveSet>);

impl LocalDirectives {
    /// Returns all directives; none if `known` is their version.
    pub(super) fn changed_since(&self, known: u64) -> Option<DirectiveSet> {
        let set = self.lock();
        (set.version != known).then(|| set.clone())
    }

    /// Stores a directive in place of another one with the same id.
    pub(super) fn put(
        &self,
        directive: StoredDirective,
        now: Timestamp,
    ) -> Result<(), DirectiveError> {
        let mut set = self.lock();
        set.entries
            .retain(|entry| entry.until > now && entry.id != directive.id);
        set.version += 1;
        if set.entries.len() >= DIRECTIVES_MAX {
            return Err(DirectiveError::Full);
        }
        set.entries.push(directive);
        Ok(())
    }

    /// Removes the directives with these ids; returns how many there were.
    pub(super) fn remove(&self, ids: &[String]) -> usize {
        let mut set = self.lock();
        let before = set.entries.len();
        set.entries.retain(|entry| !ids.contains(&entry.id));
        set.version += 1;
        before - set.entries.len()
    }

    /// Takes over the directives that another process kept.
    pub(super) fn adopt(&self, set: DirectiveSet) {
        *self.lock() = set;
    }

    fn lock(&self) -> MutexGuard<'_, DirectiveSet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most directives at once. Further ones are refused, and none is dropped.
pub const DIRECTIVES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn directive(id: usize, until: u64) -> StoredDirective {
        StoredDirective {
            id: id.to_string(),
            until: Timestamp(until),
            text: String::new(),
        }
    }

    #[test]
    fn one_too_many_is_refused_and_takes_no_place_of_another_until_one_ends() {
        let (directives, now) = (LocalDirectives::default(), Timestamp(5));
        for id in 0..DIRECTIVES_MAX {
            assert_eq!(
                directives.put(directive(id, 10 + id as u64 % 2), now),
                Ok(())
            );
        }
        let one_more = || directive(DIRECTIVES_MAX, 20);
        assert_eq!(directives.put(one_more(), now), Err(DirectiveError::Full));
        let again = directive(0, 30);
        assert_eq!(directives.put(again, now), Ok(()));
        let set = directives.changed_since(0).expect("it has changed");
        assert_eq!(set.entries.len(), DIRECTIVES_MAX);
        assert_eq!(directives.changed_since(set.version), None);
        assert_eq!(directives.put(one_more(), Timestamp(10)), Ok(()));
        assert_eq!(directives.remove(&["1".to_owned(), "none".to_owned()]), 1);
        let set = directives
            .changed_since(set.version)
            .expect("it has changed");
        assert_eq!(set.entries.len(), DIRECTIVES_MAX / 2 + 1);
    }
}
