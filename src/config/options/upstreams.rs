//! `[upstreams.NAME]`.

use std::sync::LazyLock;
use std::time::Duration;

use super::kind::{duration, key_file, list_or_one, number, text, word};
use super::{Keys, TIMEOUTS};
use crate::config::file::RawUpstream;
use crate::config::spelling;
use crate::config::value::{endpoint, server_name};

/// `[upstreams.NAME]`
pub static UPSTREAM: LazyLock<Keys<RawUpstream>> = LazyLock::new(|| {
    let endpoint = text("http://127.0.0.1:9000", endpoint, spelling::endpoint);
    let seconds = |seconds| duration(TIMEOUTS).or(Duration::from_secs(seconds));
    let balance = word(&[("round-robin", ())], &["least-requests", "hash"]);
    Keys::<RawUpstream>::of("upstream", "[upstreams.NAME]")
        .key("endpoints", list_or_one(endpoint))
        .sets(|it| &mut it.endpoints)
        .doc("URLs of origins, taken in turn:")
        .key("balance", balance.or(()))
        .sets(|it| &mut it.balance)
        .doc("How one of several is chosen:")
        .key("connect_timeout", seconds(3))
        .sets(|it| &mut it.http.connect_timeout)
        .doc("Until a connection stands.")
        .key("response_timeout", seconds(30))
        .sets(|it| &mut it.response_timeout)
        .doc("From the request to the head of the response.")
        .key("body_timeout", seconds(60))
        .sets(|it| &mut it.body_timeout)
        .doc("Without a byte of the response's body.")
        .key("retries", number(0..=10).or(1))
        .sets(|it| &mut it.http.retries)
        .doc("How often another endpoint is tried when one does not accept. With 0, nothing is sent twice either.")
        .table("pool", pool())
        .table("tls", tls())
        .not_yet("hash retry_budget max_requests health eject resolve_every")
});

fn pool() -> Keys<RawUpstream> {
    Keys::<RawUpstream>::of("table", "[upstreams.NAME.pool]")
        .key("max_idle", number(0..=65_536).or(256))
        .sets(|it| &mut it.http.max_idle)
        .doc("Most idle ones per endpoint and worker.")
        .key(
            "idle_timeout",
            duration(TIMEOUTS).or(Duration::from_mins(1)),
        )
        .sets(|it| &mut it.http.idle_timeout)
        .doc("How long one may be idle.")
}

fn tls() -> Keys<RawUpstream> {
    let authorities = key_file("/etc/tollgate/origin-ca.pem").or_none("the system's");
    let certificate = key_file("/etc/tollgate/gateway.pem").or_none("none");
    let name = text("api.internal", server_name, spelling::server_name);
    Keys::<RawUpstream>::of("table", UPSTREAM_TLS)
        .key("ca", authorities)
        .sets(|it| &mut it.tls.ca)
        .doc("Authorities that vouch for the certificates of origins; without it, the system's.")
        .key("certificate", certificate)
        .sets(|it| &mut it.tls.certificate)
        .doc("A certificate of the gateway's own.")
        .key("key", key_file("/etc/tollgate/gateway.key").or_none("none"))
        .sets(|it| &mut it.tls.key)
        .doc("The private key of that certificate.")
        .key("server_name", name.or_none("each endpoint's"))
        .sets(|it| &mut it.server_name)
        .doc("The name that their certificates are for; without it, the host of each endpoint.")
}

/// The title of the table of certificates.
pub const UPSTREAM_TLS: &str = "[upstreams.NAME.tls]";
