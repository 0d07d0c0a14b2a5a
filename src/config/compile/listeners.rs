//! Ports: the listeners and the admin port, no two of which may share an address.

use std::ops::Range;
use std::sync::Arc;

use super::hashed::hashed;
use crate::config::file::{File, Pem, RawCertificate, RawListener, Spanned, Table};
use crate::config::options::LISTENER;
use crate::config::report::Report;
use crate::request::Part;
use crate::snapshot::{ListenAddress, Listener, Policy};
use crate::tls::{ServerMaterial, ServerTls, ServerTlsFault, TlsFault};

/// Compiles `[listeners.NAME]`; a listener without an address is left out.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Arc<Listener>> {
    if file.listeners.is_empty() && !file.lost.may_be_any("listeners") {
        let (message, expected) = ("the file has no listener", "a table `[listeners.NAME]`");
        (report.mistake(&(0..0), message, expected))
            .hint("add `[listeners.public]` with `address = \"127.0.0.1:8080\"`");
    }
    let admin = file.admin.value.address;
    let mut taken: Vec<(ListenAddress, String)> = Vec::new();
    taken.extend(admin.map(|address| (ListenAddress::Tcp(address), "the admin port".to_owned())));
    let mut listeners = Vec::new();
    for table in &file.listeners {
        let Some(place) = table.place("address") else {
            continue;
        };
        let (name, address) = (&table.name, &table.value.listener.address);
        if let Some((other, by)) = taken.iter().find(|(other, _)| collide(other, address)) {
            let message = format!("{address} is taken: {by} listens on {other}");
            report.mistake(place, message, "a different address");
        }
        taken.push((address.clone(), format!("listener `{name}`")));
        listeners.push(listener(table, tls(table, report)));
    }
    listeners
}

/// Reports the policies and upstreams that read client certificates, although no listener asks for them.
pub(super) fn lacking_client_ca(file: &File, policies: &[Policy], report: &mut Report) {
    let may_ask = |table: &Table<RawListener>| {
        table.has("tls.client_ca")
            || table.is_incomplete(TLS)
            || table.is_incomplete(LISTENER.about.title)
    };
    if file.lost.may_be_any("listeners") || file.listeners.iter().any(may_ask) {
        return;
    }
    let mut lacking = |place: &Range<usize>| {
        let message = "`client-cert` needs `client_ca`, which no listener has";
        let expected = "a listener that requires client certificates";
        (report.mistake(place, message, expected))
            .hint("add `client_ca` to `[listeners.NAME.tls]`");
    };
    for table in &file.upstreams {
        if hashed(table).any(|part| *part == Part::ClientCert) {
            lacking(table.place("hash_by").unwrap_or(&table.span));
        }
    }
    for (table, policy) in file.policies.iter().zip(policies) {
        let mut in_partition = policy.partition.parts();
        let key = if in_partition.any(|part| *part == Part::ClientCert) {
            "partition"
        } else if policy.parts().any(|part| *part == Part::ClientCert) {
            "overrides_by"
        } else {
            continue;
        };
        lacking(table.place(key).unwrap_or(&table.span));
    }
}

/// Returns a listener as the data plane has it.
pub(in crate::config) fn listener(
    table: &Table<RawListener>,
    tls: Option<ServerTls>,
) -> Arc<Listener> {
    let name = Arc::clone(&table.name);
    Arc::new(Listener {
        name,
        tls,
        ..table.value.listener.clone()
    })
}

/// Builds a listener's TLS from the files that it names.
fn tls(table: &Table<RawListener>, report: &mut Report) -> Option<ServerTls> {
    let place = table.place("tls.certificates")?;
    let raw = &table.value.tls;
    if table.is_incomplete(TLS) {
        return None;
    }
    if raw.certificates.is_empty() {
        let expected = "at least one certificate with its key";
        report.mistake(place, "`tls` has no certificates", expected);
        return None;
    }
    let mut pairs = Vec::new();
    for one in &raw.certificates {
        pairs.extend(pair(one, report));
    }
    if pairs.len() < raw.certificates.len() {
        return None;
    }
    let material = ServerMaterial {
        certificates: (pairs.iter())
            .map(|(certificate, key)| (&*certificate.value.content, &*key.value.content))
            .collect(),
        client_ca: raw.client_ca.as_ref().map(|pem| &*pem.content),
        min_version: raw.min_version,
        http2: table.value.listener.http2,
    };
    let faults = match ServerTls::new(&material) {
        Ok(tls) => return Some(tls),
        Err(faults) => faults,
    };
    for ServerTlsFault { certificate, fault } in faults {
        let mut expected = "a PEM file with certificates";
        let (name, place) = match (certificate.map(|index| pairs[index]), fault) {
            (Some((_, key)), TlsFault::Key(_)) => {
                expected = "a PEM file with the private key of `certificate`, not encrypted";
                ("key", &key.span)
            }
            (Some((certificate, _)), _) => ("certificate", &certificate.span),
            (None, _) => ("client_ca", table.place("tls.client_ca").unwrap_or(place)),
        };
        report.mistake(place, format!("the file of `{name}` {fault}"), expected);
    }
    None
}

/// Returns the files of a certificate and its key, or reports that one of them is missing.
fn pair<'c>(
    one: &'c Spanned<RawCertificate>,
    report: &mut Report,
) -> Option<(&'c Spanned<Pem>, &'c Spanned<Pem>)> {
    let RawCertificate { certificate, key } = &one.value;
    if let (Some(certificate), Some(key)) = (certificate, key) {
        return Some((certificate, key));
    }
    let lacks = if certificate.is_none() {
        "certificate"
    } else {
        "key"
    };
    let message = format!("a certificate lacks `{lacks}`");
    report.mistake(&one.span, message, "`certificate` and `key`");
    None
}

/// Title of a listener's `tls` table.
const TLS: &str = "[listeners.NAME.tls]";

/// Whether the system would refuse to listen on the second of two addresses.
///
/// Port 0 is another port each time. `[::]` accepts IPv6 only, so it does not collide with `0.0.0.0`.
fn collide(a: &ListenAddress, b: &ListenAddress) -> bool {
    let (ListenAddress::Tcp(a), ListenAddress::Tcp(b)) = (a, b) else {
        return a == b;
    };
    let every = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port()
        && a.port() != 0
        && a.is_ipv4() == b.is_ipv4()
        && (every || a.ip() == b.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::listen_address;

    #[test]
    fn addresses_collide_when_the_system_would_refuse_the_second() {
        let cases = [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:80", "[::]:80", false),
            ("[::]:80", "[::1]:80", true),
            ("unix:/run/a.sock", "unix:/run/a.sock", true),
            ("unix:/run/a.sock", "unix:/run/b.sock", false),
            ("unix:/run/a.sock", "127.0.0.1:80", false),
        ];
        for (a, b, expected) in cases {
            let address = |text: &str| listen_address(text).expect("an address");
            assert_eq!(collide(&address(a), &address(b)), expected, "{a} and {b}");
        }
    }
}
