//! Resolution of names: by the system, or from a table that a test fills.

use std::collections::HashMap;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

/// Resolves names to addresses; cheap to clone.
#[derive(Clone, Debug, Default)]
pub enum NameResolver {
    /// The system's resolver: `/etc/hosts`, DNS, and whatever else it is configured to ask.
    #[default]
    System,
    /// A table, for tests.
    Table(NameTable),
}

/// Addresses of names, as a test sets them.
#[derive(Clone, Debug, Default)]
pub struct NameTable(Arc<Mutex<HashMap<Box<str>, Entry>>>);

#[derive(Clone, Debug)]
enum Entry {
    Addresses(Vec<IpAddr>),
    /// The answer never comes.
    Silence,
}

impl NameResolver {
    /// Looks up the addresses of `host`; there is at least one.
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
                // `lookup_host` wants a port, but the addresses do not depend on it.
                Self::System => {
                    let found = tokio::net::lookup_host((host, 0)).await;
                    let found = found.map_err(|error| error.to_string().into_boxed_str())?;
                    usable(found.map(|address| address.ip()).collect())
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

/// Leaves out addresses to which there is no route, because many machines have no IPv6 (RFC 6724,
/// section 6, rule 1). If there is a route to none of them, all are kept.
fn usable(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let routed: Vec<_> = (addresses.iter().copied())
        .filter(|copied| has_route(*copied))
        .collect();
    if routed.is_empty() { addresses } else { routed }
}

/// Whether there is a route to `address`; nothing is sent.
fn has_route(address: IpAddr) -> bool {
    let own = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let connect = |socket: UdpSocket| socket.connect((address, DISCARD));
    UdpSocket::bind((own, 0)).and_then(connect).is_ok()
}

/// The discard port; any would do, because nothing is sent to it.
const DISCARD: u16 = 9;

impl NameTable {
    /// Makes `host` resolve to `addresses` from now on.
    pub fn set(&self, host: &str, addresses: &[IpAddr]) {
        self.put(host, Entry::Addresses(addresses.to_vec()));
    }

    /// Makes every look-up of `host` hang from now on.
    pub fn hang(&self, host: &str) {
        self.put(host, Entry::Silence);
    }

    /// Makes `host` unknown from now on.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_a_route_is_used_only_if_there_is_no_other() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        // A socket that is not allowed to broadcast cannot be connected to the second address.
        let (routed, unrouted) = (address("127.0.0.1"), address("255.255.255.255"));
        assert_eq!(usable(vec![unrouted, routed]), [routed]);
        assert_eq!(usable(vec![unrouted]), [unrouted]);
    }
}
