//! Addresses of names: the last good answer stays until there is another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Micros, Timestamp};

/// The names of endpoints, and their addresses.
#[derive(Debug, Default)]
pub(super) struct NameCache(HashMap<Box<str>, Name>);

#[derive(Debug)]
struct Name {
    /// The addresses of the last good answer, sorted; empty before the first one.
    addresses: Arc<[IpAddr]>,
    /// Why the latest look-up failed; none if it succeeded, or before the first has ended.
    error: Option<Arc<str>>,
    /// When the next look-up is due.
    due: Timestamp,
    every: Duration,
    is_being_looked_up: bool,
}

/// What is known of a name: its addresses, and whether it resolves.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) addresses: Arc<[IpAddr]>,
    /// Why the latest look-up failed; none if it succeeded, or before the first has ended.
    pub(super) error: Option<Arc<str>>,
}

/// How long a failure is remembered: a name that does not resolve is not looked up more often than this.
const FAILURE_TIME: Duration = Duration::from_secs(1);

/// Most addresses of a name that are used.
const ADDRESSES_MAX: usize = 256;

impl NameCache {
    /// Begins a look-up of `host`, if one is due and none is under way; after that one is due at intervals of `every`.
    pub(super) fn begin(&mut self, host: &str, every: Duration, now: Timestamp) -> bool {
        let name = self.0.entry(host.into()).or_insert_with(|| Name {
            addresses: Arc::default(),
            error: None,
            due: now,
            every,
            is_being_looked_up: false,
        });
        if every < name.every {
            name.due = name.due.min(now + Micros::from(every));
        }
        name.every = every;
        let begins = !name.is_being_looked_up && name.due <= now;
        name.is_being_looked_up |= begins;
        begins
    }

    /// Whether a look-up of `host` has ended.
    pub(super) fn is_known(&self, host: &str) -> bool {
        let name = self.0.get(host);
        name.is_some_and(|name| !name.addresses.is_empty() || name.error.is_some())
    }

    /// Notes the result of a look-up; returns whether endpoints have to be updated.
    pub(super) fn note(
        &mut self,
        host: &str,
        found: Result<Vec<IpAddr>, Box<str>>,
        now: Timestamp,
    ) -> bool {
        let Some(name) = self.0.get_mut(host) else {
            return false;
        };
        name.is_being_looked_up = false;
        match found {
            Ok(mut addresses) => {
                addresses.sort_unstable();
                addresses.dedup();
                if addresses.len() > ADDRESSES_MAX {
                    tracing::warn!(
                        name = host,
                        addresses = addresses.len(),
                        used = ADDRESSES_MAX,
                        "a name has too many addresses: the others are not used"
                    );
                    addresses.truncate(ADDRESSES_MAX);
                }
                name.due = now + Micros::from(name.every);
                let had_failed = name.error.take().is_some();
                let has_changed = *name.addresses != *addresses;
                if had_failed || has_changed {
                    let addresses = spelled(&addresses);
                    tracing::info!(name = host, addresses, "a name resolves");
                }
                name.addresses = addresses.into();
                has_changed
            }
            Err(error) => {
                name.due = now + Micros::from(name.every.min(FAILURE_TIME));
                let before = name.error.replace((&*error).into());
                if before.is_none() {
                    let kept = spelled(&name.addresses);
                    tracing::warn!(name = host, %error, kept, "a name does not resolve");
                }
                // Requests may wait for the first answer, so they are told why there is none.
                name.addresses.is_empty() && before.as_deref() != Some(&*error)
            }
        }
    }

    /// Returns what is known of `host`.
    pub(super) fn addresses(&self, host: &str) -> Resolved {
        let name = self.0.get(host);
        Resolved {
            addresses: name
                .map(|name| Arc::clone(&name.addresses))
                .unwrap_or_default(),
            error: name.and_then(|name| name.error.clone()),
        }
    }

    /// Forgets the names that are not used any more.
    pub(super) fn retain(&mut self, is_used: impl Fn(&str) -> bool) {
        self.0.retain(|host, _| is_used(host));
    }
}

fn spelled(addresses: &[IpAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn at(secs: u64) -> Timestamp {
        Timestamp(0) + Micros::from_secs(secs)
    }

    #[test]
    fn name_is_looked_up_once_at_a_time_and_keeps_its_last_good_answer() {
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let mut names = NameCache::default();
        assert!(names.begin("a", HOUR, at(0)));
        assert!(!names.begin("a", HOUR, at(9_000)), "one is under way");
        assert!(names.note("a", Err("gone".into()), at(9_000)));
        assert_eq!(names.addresses("a").error.as_deref(), Some("gone"));
        assert!(
            !names.begin("a", HOUR, at(9_000)),
            "a failure is remembered"
        );
        assert!(names.begin("a", HOUR, at(9_001)), "but briefly");
        assert!(names.note("a", Ok(vec![address(2), address(1), address(2)]), at(9_001)));
        assert_eq!(*names.addresses("a").addresses, [address(1), address(2)]);
        assert!(!names.begin("a", HOUR, at(12_600)));
        assert!(names.begin("a", HOUR, at(12_601)));
        assert!(
            !names.note("a", Err("gone".into()), at(12_601)),
            "the last good answer stays"
        );
        assert_eq!(names.addresses("a").addresses.len(), 2);
        assert!(names.begin("a", HOUR, at(12_602)));
        assert!(
            !names.note("a", Ok(vec![address(2), address(1)]), at(12_602)),
            "in any order"
        );
        assert!(!names.begin("a", Duration::from_secs(5), at(12_603)));
        assert!(
            names.begin("a", Duration::from_secs(5), at(12_608)),
            "sooner, if the file says so"
        );
        names.retain(|_| false);
        assert!(
            !names.note("a", Ok(vec![address(3)]), at(12_609)),
            "nobody asks any more"
        );
    }
}
