//! Warnings about listeners.

use crate::config::file::File;
use crate::request::{AddressSource, Part};
use crate::snapshot::{Listener, Snapshot};

/// Warns of listeners whose settings have no effect because they trust nobody, and of those that trust everybody.
pub(super) fn warn_ineffective_trust(file: &File, found: &mut Vec<String>) {
    for table in &file.listeners {
        let (name, listener) = (&table.name, &table.value.listener);
        let identity = &listener.identity;
        let (source, trusted_proxies) = (&identity.source, &identity.trusted_proxies);
        if table.has("client_address") && *source != AddressSource::Peer && !listener.trusts_peers()
        {
            found.push(format!(
                "listener `{name}`: `client_address` is never read, because `trusted_proxies` is empty"
            ));
        }
        if listener.proxy_protocol && trusted_proxies.is_empty() && !listener.is_unix() {
            found.push(format!(
                "listener `{name}`: every connection is closed, because `proxy_protocol` trusts only \
                 `trusted_proxies`, which is empty"
            ));
        }
        for everyone in trusted_proxies.iter().filter(|net| net.prefix_len() == 0) {
            found.push(format!(
                "listener `{name}`: `trusted_proxies` has {everyone}: any client can choose the address that it is limited by"
            ));
        }
    }
}

/// Warns of limits that need addresses, which peers of a Unix socket have only if they tell one.
pub(super) fn warn_missing_addresses(snapshot: &Snapshot, found: &mut Vec<String>) {
    let listeners = snapshot.listeners.iter();
    for listener in listeners.filter(|listener| listener.trusts_every_peer()) {
        let name = &listener.name;
        if listener.max_connections_per_client.is_some() {
            found.push(format!(
                "listener `{name}`: `max_connections_per_client` limits nothing, because all peers of a Unix \
                 socket are trusted"
            ));
        }
        if listener.identity.source != AddressSource::Peer {
            continue;
        }
        let counting = snapshot
            .policies
            .iter()
            .filter(|policy| policy.mode.is_some());
        for policy in counting.filter(|policy| policy.parts().any(|part| *part == Part::Ip)) {
            found.push(format!(
                "listener `{name}`: policy `{}` reads `ip`, which is missing from every request, because peers of \
                 a Unix socket have no address: name the field in which they tell the client's as \
                 `client_address`, or set `proxy_protocol`",
                policy.name
            ));
        }
    }
}

/// Warns of certificates that are never used, because they name no host and are not the first.
pub(super) fn warn_unused_certificates(listener: &Listener) -> impl Iterator<Item = String> {
    let certificates = listener.tls.iter().flat_map(|tls| &tls.certificates);
    let nameless = certificates
        .skip(1)
        .filter(|certificate| !certificate.has_names);
    nameless.map(|nameless| {
        format!(
            "listener `{}`: the certificate of `{}` is never used, because it names no host",
            listener.name, nameless.name
        )
    })
}
