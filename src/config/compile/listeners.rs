//! Ports: the listeners and the admin port, no two of which may share an address.

use std::net::SocketAddr;
use std::sync::Arc;

use super::defaults;
use crate::config::file::{self, At, File};
use crate::config::report::{Mistake, Report};
use crate::request::{AddressSource, ClientIdentity};
use crate::snapshot::Listener;

/// Compiles `[listeners.NAME]`; what lacks an address is left out.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Arc<Listener>> {
    if file.listeners.is_empty() && !file.incomplete {
        report.add(
            Mistake::at(0..0, "the file has no listener")
                .expected("a table `[listeners.NAME]`")
                .hint("add `[listeners.public]` with `address = \"127.0.0.1:8080\"`"),
        );
    }
    let mut taken: Vec<(SocketAddr, String)> = Vec::new();
    if let Some(address) = admin_address(file) {
        taken.push((address, "the admin port".to_owned()));
    }
    let mut listeners = Vec::new();
    for (name, listener) in &file.listeners {
        let Some(address) = address(name, listener, report) else {
            continue;
        };
        if let Some((other, by)) = taken.iter().find(|(other, _)| clash(*other, address.value)) {
            let message = format!("{} is taken: {by} listens on {other}", address.value);
            report
                .add(Mistake::at(address.span.clone(), message).expected("an address of its own"));
        }
        taken.push((address.value, format!("listener `{}`", name.value)));
        listeners.push(Arc::new(compiled(name, address.value, listener)));
    }
    listeners
}

/// Returns where the admin port listens; none: it is off.
pub(super) fn admin_address(file: &File) -> Option<SocketAddr> {
    match &file.admin.address {
        Some(address) => address.value,
        None => Some(defaults::ADMIN_ADDRESS),
    }
}

fn address<'f>(
    name: &At<String>,
    listener: &'f file::Listener,
    report: &mut Report,
) -> Option<&'f At<SocketAddr>> {
    if listener.address.is_none() && !listener.incomplete {
        report.add(
            Mistake::at(
                name.span.clone(),
                format!("listener `{}` lacks `address`", name.value),
            )
            .expected("a table with `address`")
            .hint("add `address = \"127.0.0.1:8080\"`"),
        );
    }
    listener.address.as_ref()
}

fn compiled(name: &At<String>, address: SocketAddr, listener: &file::Listener) -> Listener {
    Listener {
        name: name.value.as_str().into(),
        address,
        identity: ClientIdentity {
            trusted_proxies: listener.trusted_proxies.clone(),
            source: match &listener.client_address {
                Some(source) => source.value.clone(),
                None => AddressSource::XForwardedFor,
            },
            ipv6_prefix: listener.ipv6_prefix.unwrap_or(defaults::IPV6_PREFIX),
        },
        max_connections: listener
            .max_connections
            .unwrap_or(defaults::MAX_CONNECTIONS),
        max_held: listener.max_held.unwrap_or(defaults::MAX_HELD),
        header_timeout: listener.header_timeout.unwrap_or(defaults::HEADER_TIMEOUT),
        idle_timeout: listener.idle_timeout.unwrap_or(defaults::IDLE_TIMEOUT),
        body_timeout: listener.body_timeout.unwrap_or(defaults::BODY_TIMEOUT),
        max_header_bytes: match &listener.max_header_bytes {
            Some(max) => max.value,
            None => defaults::MAX_HEADER_BYTES,
        },
        max_body_bytes: listener.max_body_bytes,
    }
}

/// Says whether the system would refuse the second of two addresses.
///
/// Port 0 is another port each time. Whether `[::]` also takes IPv4 is the system's setting, so
/// families are not compared.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let every = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port()
        && a.port() != 0
        && a.is_ipv4() == b.is_ipv4()
        && (every || a.ip() == b.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_clash_when_the_system_would_refuse_the_second() {
        let cases = [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:80", "[::]:80", false),
        ];
        for (a, b, expected) in cases {
            let address = |text: &str| text.parse().expect("an address");
            assert_eq!(clash(address(a), address(b)), expected, "{a} and {b}");
        }
    }
}
