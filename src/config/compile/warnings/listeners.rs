//! Warnings about listeners.

use crate::config::file::File;
use crate::request::AddressSource;
use crate::snapshot::Listener;

/// What listeners believe of others in vain, or of everybody.
pub(super) fn warn_ineffective_trust(file: &File, found: &mut Vec<String>) {
    for table in &file.listeners {
        let (name, identity) = (&table.name, &table.value.listener.identity);
        let (source, trusted_proxies) = (&identity.source, &identity.trusted_proxies);
        if table.has("client_address")
            && *source != AddressSource::Peer
            && trusted_proxies.is_empty()
        {
            found.push(format!(
                "listener `{name}`: `client_address` is never read, because `trusted_proxies` is empty"
            ));
        }
        if table.value.listener.proxy_protocol && trusted_proxies.is_empty() {
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

/// A certificate without names answers for no host, unless it is the first.
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
