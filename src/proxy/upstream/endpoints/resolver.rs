//! Who resolves names: the system, or a table that a test fills.

use std::collections::HashMap;
use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Resolves names to addresses; cheap to clone.
#[derive(Clone, Debug, Default)]
pub enum Resolver {
    /// The system: `/etc/hosts`, DNS, and whatever else it is told to ask.
    #[default]
    System,
    /// A table.
    Table(NameTable),
}

/// What names resolve to, as a test says.
#[derive(Clone, Debug, Default)]
pub struct NameTable(Arc<Mutex<HashMap<Box<str>, Entry>>>);

#[derive(Clone, Debug)]
enum Entry {
    Addresses(Vec<IpAddr>),
    /// The answer never comes.
    Silence,
}

impl Resolver {
    /// Looks `host` up. The result is not empty.
    ///
    /// # Errors
    /// Why it does not resolve, in a few words.
    pub(super) fn look_up(
        &self,
        host: &str,
    ) -> impl Future<Output = Result<Vec<IpAddr>, Box<str>>> + use<> {
        let (resolver, host) = (self.clone(), host.to_owned());
        async move {
            let found: Vec<IpAddr> = match resolver {
                // The port is no part of what is looked up.
                Self::System => {
                    let found = tokio::net::lookup_host((host, 0)).await;
                    let found = found.map_err(|error| error.to_string().into_boxed_str())?;
                    found.map(|address| address.ip()).collect()
                }
                Self::Table(table) => match table.answer(&host) {
                    Some(Entry::Addresses(addresses)) => addresses,
                    Some(Entry::Silence) => pending().await,
                    None => return Err("no such name".into()),
                },
            };
            if found.is_empty() {
                return Err("no address".into());
            }
            Ok(found)
        }
    }
}

impl NameTable {
    /// Lets `host` resolve to `addresses` from now on.
    pub fn set(&self, host: &str, addresses: &[IpAddr]) {
        self.put(host, Entry::Addresses(addresses.to_vec()));
    }

    /// Lets every look-up of `host` hang from now on.
    pub fn hang(&self, host: &str) {
        self.put(host, Entry::Silence);
    }

    /// Lets `host` be unknown from now on.
    pub fn remove(&self, host: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(host);
    }

    fn put(&self, host: &str, entry: Entry) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(host.into(), entry);
    }

    fn answer(&self, host: &str) -> Option<Entry> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(host).cloned()
    }
}
