//! Sends a request to one of an upstream's endpoints and returns the head of its response.
//!
//! `endpoints` holds what the process knows of an upstream's endpoints, and `checks` probes them. `dispatch` sends a
//! request: `balance` chooses an endpoint, `connecting` finds a connection, `http1` and `http2` speak with the origin,
//! `body` passes on the response's body, and [`Attempts`] records what happened.
//!
//! # Retries
//!
//! A request is tried again, at another endpoint if there is one, in three cases: nothing of it was
//! sent; the origin says that it has not processed it, and none of its body has been taken; or its
//! connection broke before any byte of a response, and it has no body and an idempotent method. It is
//! not tried again after a timeout or a status. `retries` bounds this for each request, and
//! `retry_budget` for all requests together. A kept connection that turns out to be closed costs no
//! retry: the request takes another one to the same endpoint, if nothing of it was written or processed.

mod answer;
mod attempts;
mod balance;
mod body;
mod body_error;
pub mod builtin;
mod checks;
mod connect_error;
mod connecting;
mod dispatch;
mod endpoints;
mod error;
mod forward_options;
pub mod http1;
pub mod http2;
mod meter;
mod origin;
mod origin_deadline;
mod pool;
mod stream;
mod system_error;
mod upload;
mod upstream_connection;

use std::sync::Arc;

use super::wire::body::UploadBody;
use super::wire::outgoing::Outgoing;

pub use self::answer::{Switched, UpstreamAnswer};
pub use self::attempts::Attempts;
pub use self::body::UpstreamBody;
pub use self::body_error::{BrokenBody, UpstreamBodyError};
pub use self::checks::{CHECKS_SET_ASIDE, Checker};
pub use self::connect_error::ConnectError;
use self::dispatch::Dispatch;
pub use self::endpoints::{
    EndpointStatus, Endpoints, NameResolver, NameTable, UpstreamState, UpstreamStatus,
};
pub use self::error::{BadResponse, ForwardError, NoEndpoint, UpstreamFailure};
pub use self::forward_options::{ForwardOptions, HostField};
pub use self::meter::UpstreamMeter;
pub use self::pool::Pools;
pub use self::stream::Stream;

/// Sends `request` to an endpoint of `upstream`.
///
/// The response has no hop-by-hop fields any more. Dropping the future closes a connection over HTTP/1.1, or resets
/// the stream over HTTP/2. `attempts` records where the request went; it lives until the response has ended.
///
/// # Errors
///
/// Returned after every retry that is allowed has been made: the request cannot be sent again.
pub async fn send<B: UploadBody>(
    pools: &Pools,
    upstream: &Arc<UpstreamState>,
    request: &mut Outgoing<B>,
    terms: &ForwardOptions,
    meter: UpstreamMeter<'_>,
    attempts: &Attempts,
) -> Result<UpstreamAnswer, UpstreamFailure> {
    if terms.is_upgrade {
        request.ask_to_switch();
    }
    let http = upstream.http();
    if let Some(max) = http.max_requests {
        let permit = upstream.admit(max);
        let full = || UpstreamFailure::of(None, ForwardError::Full);
        attempts.permit.replace(Some(permit.ok_or_else(full)?));
    }
    let dispatch = Dispatch {
        pools,
        upstream,
        http,
        terms,
        meter,
        attempts,
    };
    dispatch.send(request).await
}
