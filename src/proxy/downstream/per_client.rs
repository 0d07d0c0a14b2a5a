//! How many connections each client of a listener has, where `max_connections_per_client` bounds them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::request::{client_network, is_trusted_peer};
use crate::snapshot::Listener;

/// Numbers of open connections, by client of one listener. Only clients that have one open have an entry, so the map is
/// bounded as the connections are.
#[derive(Debug, Default)]
pub(crate) struct ClientConnections(Mutex<HashMap<IpAddr, usize>>);

/// A connection's place among those of its client; freed when dropped.
#[derive(Debug)]
pub(crate) struct ClientPermit {
    client: IpAddr,
    all: Arc<ClientConnections>,
}

/// The client already has as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has reached its limit of connections")]
pub(crate) struct TooMany;

impl ClientConnections {
    /// Counts a connection of `peer`, if the listener bounds the connections of a client. A trusted peer's are not
    /// counted, because it connects for many clients.
    pub(crate) fn admit(
        self: &Arc<Self>,
        peer: Option<IpAddr>,
        listener: &Listener,
    ) -> Result<Option<ClientPermit>, TooMany> {
        let Some(most) = listener.max_connections_per_client else {
            return Ok(None);
        };
        let Some(peer) = peer.filter(|_| !is_trusted_peer(peer, &listener.identity)) else {
            return Ok(None);
        };
        let client = client_network(peer, listener.identity.prefixes);
        let mut counts = self.counts();
        let count = counts.entry(client).or_insert(0);
        // This never leaves an entry of 0 behind, because `most` is at least 1.
        if *count >= most {
            return Err(TooMany);
        }
        *count += 1;
        let all = Arc::clone(self);
        Ok(Some(ClientPermit { client, all }))
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        let mut counts = self.all.counts();
        let count = counts.get_mut(&self.client).map(|count| {
            *count -= 1;
            *count
        });
        if count == Some(0) {
            counts.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ClientIdentity;

    #[test]
    fn a_client_has_so_many_connections_and_leaves_nothing_behind() {
        let listener = Listener {
            max_connections_per_client: Some(2),
            identity: ClientIdentity {
                trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
                ..ClientIdentity::default()
            },
            ..Listener::default()
        };
        let all = Arc::<ClientConnections>::default();
        let admit = |peer: &str| all.admit(Some(peer.parse().expect("an address")), &listener);
        let one = admit("203.0.113.9").expect("the first");
        let two = admit("::ffff:203.0.113.9").expect("the second");
        assert_eq!(admit("203.0.113.9").err(), Some(TooMany));
        let other = admit("203.0.113.8").expect("another client");
        let network = ["2001:db8::1", "2001:db8::2"].map(admit);
        assert_eq!(admit("2001:db8::3").err(), Some(TooMany));
        let proxy: Vec<_> = (0..9)
            .map(|_| admit("10.0.0.1").expect("a proxy"))
            .collect();
        assert!(proxy.iter().all(Option::is_none));
        drop(one);
        let again = admit("203.0.113.9").expect("there is room again");
        drop((two, other, network, again));
        assert!(all.counts().is_empty());
        let unbounded = Listener::default();
        let peer = Some(IpAddr::from([203, 0, 113, 9]));
        assert!(matches!(all.admit(None, &listener), Ok(None)));
        assert!(matches!(all.admit(peer, &unbounded), Ok(None)));
    }
}
