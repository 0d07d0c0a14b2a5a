//! `[listeners.NAME]`.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::bounds::{BODY_BYTES, TIMEOUTS};
use super::files::key_file;
use super::kind::{ValueSpec, boolean, duration, list, number, size, tables, text, word};
use super::{Effect, TableSpec, ValueShape};
use crate::config::display;
use crate::config::file::{RawCertificate, RawListener, Spanned};
use crate::config::read::Scalar;
use crate::config::value::{
    LISTEN_PATTERN, NETWORK_PATTERN, SOURCE_PATTERN, client_address, listen_address, network,
};
use crate::request::{AddressSource, ClientIdentity};
use crate::snapshot::{ListenAddress, Listener};
use crate::tls::TlsVersion;

/// `[listeners.NAME]`
pub static LISTENER: LazyLock<TableSpec<RawListener>> = LazyLock::new(|| {
    let seconds = |seconds| duration(TIMEOUTS).or(Duration::from_secs(seconds));
    let network = text("10.0.0.0/8", network, ToString::to_string).matching(NETWORK_PATTERN);
    let networks = list(network).plain(|nets| nets, |nets| display::list(nets));
    let per_client = number(1..=CONNECTIONS_MAX);
    let source =
        text("x-forwarded-for", client_address, display::address_source).matching(SOURCE_PATTERN);
    let address =
        text("127.0.0.1:8080", listen_address, ToString::to_string).matching(LISTEN_PATTERN);
    TableSpec::<RawListener>::of("listener", "[listeners.NAME]")
        .about("Ports that accept clients.")
        .key("address", address)
        .sets(|table| &mut table.listener.address)
        .doc("The address to listen on.")
        .effect(Effect::NeedsRestart)
        .key("http2", boolean().or(true))
        .sets(|table| &mut table.listener.http2)
        .doc("Whether to accept HTTP/2 as well: negotiated by ALPN over TLS, recognized by its preface in cleartext.")
        .key("proxy_protocol", boolean().or(false))
        .sets(|table| &mut table.listener.proxy_protocol)
        .doc("Whether every connection starts with a PROXY protocol header.")
        .key("trusted_proxies", networks.or(Vec::new()))
        .sets(|table| &mut table.listener.identity.trusted_proxies)
        .doc("Addresses and networks of proxies that are trusted to report the client's address.")
        .key("client_address", source.or(AddressSource::XForwardedFor))
        .sets(|table| &mut table.listener.identity.source)
        .doc("Where trusted proxies report it:")
        .key("ipv4_prefix", number(1..=32).or(32))
        .sets(|table| &mut table.listener.identity.prefixes.ipv4)
        .doc("How many leading bits of an IPv4 address identify one client.")
        .effect(Effect::CountersAfresh)
        .key("ipv6_prefix", number(1..=128).or(64))
        .sets(|table| &mut table.listener.identity.prefixes.ipv6)
        .doc("How many leading bits of an IPv6 address identify one client.")
        .effect(Effect::CountersAfresh)
        .key("max_connections", number(1..=CONNECTIONS_MAX).or(10_000))
        .sets(|table| &mut table.listener.max_connections)
        .doc("Most connections at once.")
        .key("max_connections_per_client", per_client.or_none("none"))
        .sets(|table| &mut table.listener.max_connections_per_client)
        .doc("Most connections at once per client.")
        .key("max_delayed", number(0..=CONNECTIONS_MAX).or(1_000))
        .sets(|table| &mut table.listener.max_delayed)
        .doc("Most requests delayed by leaky-bucket policies at once.")
        .key("max_buffered_bytes", size(0..=1 << 40).or(64 << 20))
        .sets(|table| &mut table.listener.max_buffered_bytes)
        .doc("Most bytes of request bodies buffered at once to decide their requests.")
        .key("handshake_timeout", seconds(10))
        .sets(|table| &mut table.listener.handshake_timeout)
        .doc("Time allowed for a TLS handshake.")
        .key("header_timeout", seconds(10))
        .sets(|table| &mut table.listener.header_timeout)
        .doc("Time allowed for a request's head to arrive.")
        .key("idle_timeout", seconds(75))
        .sets(|table| &mut table.listener.idle_timeout)
        .doc("Time allowed between two requests on a connection.")
        .key("body_timeout", seconds(30))
        .sets(|table| &mut table.listener.body_timeout)
        .doc("Time allowed without progress by the client while a body is read or written.")
        .key("tunnel_timeout", seconds(3600))
        .sets(|table| &mut table.listener.tunnel_timeout)
        .doc("Time allowed without a byte on an upgraded connection.")
        // hyper's buffer for a head has at least 8 KiB.
        .key("max_header_bytes", size(8 << 10..=1 << 20).or(32 << 10))
        .sets(|table| &mut table.listener.max_header_bytes)
        .doc("Most bytes in a request's head.")
        .key("max_body_bytes", size(BODY_BYTES).or_none("none"))
        .sets(|table| &mut table.listener.max_body_bytes)
        .doc("Most bytes in a request's body.")
        .table("tls", tls())
});

/// `[listeners.NAME.tls]`
fn tls() -> TableSpec<RawListener> {
    let versions = word(display::TLS_VERSIONS).or(TlsVersion::Tls12);
    let authorities = key_file("/etc/tollgate/clients-ca.pem").or_none("none");
    TableSpec::<RawListener>::of("`tls` of listener", "[listeners.NAME.tls]")
        .about("TLS for clients.")
        .key("certificates", certificates())
        .sets(|table| &mut table.tls.certificates)
        .doc("Certificates, each with its key.")
        .key("min_version", versions)
        .sets(|table| &mut table.tls.min_version)
        .doc("The oldest TLS version to accept:")
        .key("client_ca", authorities)
        .sets(|table| &mut table.tls.client_ca)
        .doc("CA certificates for client certificates.")
}

/// `certificates`
fn certificates() -> ValueSpec<Vec<Spanned<RawCertificate>>> {
    let example =
        r#"{ certificate = "/etc/tollgate/public.pem", key = "/etc/tollgate/public.key" }"#;
    let read = move |mut scalar: Scalar<'_, '_>| {
        let read = scalar.table(&CERTIFICATE);
        if read.is_none() {
            scalar.mistyped("a table", format!("`{example}`"));
        }
        read
    };
    let spell = |one: &RawCertificate| {
        let path = one.certificate.as_ref().map(|pem| pem.value.path.display());
        path.map_or_else(String::new, |path| path.to_string())
    };
    tables(ValueSpec::new(
        example,
        ValueShape::Table(CERTIFICATE.about.clone()),
        read,
        spell,
    ))
}

/// One of `certificates`.
static CERTIFICATE: LazyLock<TableSpec<RawCertificate>> = LazyLock::new(|| {
    let file = |example| key_file(example).spanned().or_none("none");
    TableSpec::<RawCertificate>::of("certificate", "a certificate")
        .key("certificate", file("/etc/tollgate/public.pem"))
        .sets(|table| &mut table.certificate)
        .doc("A file with the certificate and its intermediates.")
        .key("key", file("/etc/tollgate/public.key"))
        .sets(|table| &mut table.key)
        .doc("The private key of that certificate.")
});

/// A listener without settings: the table has the default of each key, and the address has none.
impl Default for Listener {
    fn default() -> Self {
        Self {
            name: Arc::default(),
            address: ListenAddress::Tcp(SocketAddr::from(([0, 0, 0, 0], 0))),
            tls: None,
            http2: false,
            proxy_protocol: false,
            identity: ClientIdentity::default(),
            max_connections: 0,
            max_connections_per_client: None,
            max_delayed: 0,
            max_buffered_bytes: 0,
            handshake_timeout: Duration::ZERO,
            header_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            body_timeout: Duration::ZERO,
            tunnel_timeout: Duration::ZERO,
            max_header_bytes: 0,
            max_body_bytes: None,
        }
    }
}

const CONNECTIONS_MAX: u64 = 1_000_000;
