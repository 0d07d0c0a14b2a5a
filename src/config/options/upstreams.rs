//! `[upstreams.NAME]`.

use std::sync::LazyLock;
use std::time::Duration;

use super::kind::{duration, list_or_one, number, text, word};
use super::{Keys, TIMEOUTS};
use crate::config::file::RawUpstream;
use crate::config::spelling;
use crate::config::value::endpoint;

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
        .not_yet("hash retry_budget max_requests health eject resolve_every tls")
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
