//! One request: refused, or read to its end.
//!
//! The order matters: a request that comes through a gateway or from another site learns nothing, not even which paths
//! exist; and no content is read from a client without the token.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Incoming};

use super::caller;
use super::dashboard;
use super::reply::AdminReply;
use super::request::AdminRequest;
use super::state::AdminState;
use super::table::{self, AdminCall};
use crate::config::value::did_you_mean;
use crate::request::cdn_loop;
use crate::store::Session;

/// Reads a request to its end, and finds its call; or returns the reply that refuses it.
pub(super) async fn receive(
    request: Request<Incoming>,
    peer: SocketAddr,
    state: Arc<AdminState>,
    session: Session,
) -> Result<(&'static AdminCall, AdminRequest), AdminReply> {
    let (head, body) = request.into_parts();
    let close_unless_read = |refused: AdminReply| {
        if body.is_end_stream() {
            refused
        } else {
            refused.closing()
        }
    };
    let call = allowed(&head, &state).map_err(close_unless_read)?;
    let content = tokio::time::timeout(CONTENT_TIMEOUT, content(body));
    let content = content.await.unwrap_or_else(|_| {
        let detail = "The content did not arrive in time.";
        Err(AdminReply::problem(StatusCode::REQUEST_TIMEOUT, detail))
    });
    let request = AdminRequest {
        state,
        session,
        peer,
        head,
        content: content.map_err(AdminReply::closing)?,
    };
    Ok((call, request))
}

/// Finds the call that a request asks for, if the request is allowed.
fn allowed(head: &Parts, state: &AdminState) -> Result<&'static AdminCall, AdminReply> {
    let forbidden = |detail| AdminReply::problem(StatusCode::FORBIDDEN, detail);
    if cdn_loop::passes(&head.headers) > 0 {
        // A gateway that has this port as an upstream would show it to every client.
        let detail = "The request has passed through a gateway.";
        return Err(AdminReply::problem(StatusCode::LOOP_DETECTED, detail));
    }
    if !caller::names_this_machine(head) {
        return Err(forbidden(UNKNOWN_HOST));
    }
    if caller::is_of_another_site(head) {
        return Err(forbidden(CROSS_SITE));
    }
    let call = find(head)?;
    let live = state.process.live();
    caller::authorize(
        call.access,
        live.snapshot.admin.token.as_ref(),
        &head.headers,
    )?;
    Ok(call)
}

/// Finds the call with the request's path and method; HEAD is GET, without the content of the answer.
fn find(head: &Parts) -> Result<&'static AdminCall, AdminReply> {
    let path = match head.uri.path() {
        file if file.starts_with(dashboard::FOLDER) => dashboard::FILE,
        path => path,
    };
    let mut calls = table::CALLS.iter().filter(|call| call.path == path);
    let method = match head.method {
        Method::HEAD => &Method::GET,
        ref method => method,
    };
    if let Some(call) = calls.clone().find(|call| call.method == *method) {
        return Ok(call);
    }
    if calls.next().is_none() {
        let paths = table::CALLS.iter().map(|call| call.path);
        let hint = did_you_mean(path, paths).map(|hint| format!("; {hint}"));
        let detail = format!("There is no such path{}", hint.unwrap_or_default());
        return Err(AdminReply::problem(StatusCode::NOT_FOUND, detail));
    }
    Err(AdminReply::method_not_allowed(&table::allow(path)))
}

/// Reads the content of a request.
async fn content(body: Incoming) -> Result<Bytes, AdminReply> {
    let too_large = || {
        let detail = format!("The content is larger than {CONTENT_BYTES_MAX} bytes.");
        AdminReply::problem(StatusCode::PAYLOAD_TOO_LARGE, detail)
    };
    if body.size_hint().lower() > CONTENT_BYTES_MAX as u64 {
        return Err(too_large());
    }
    match Limited::new(body, CONTENT_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(_) => {
            let detail = "The content is malformed or incomplete.";
            Err(AdminReply::problem(StatusCode::BAD_REQUEST, detail))
        }
    }
}

const UNKNOWN_HOST: &str = "Host must be an IP address or localhost.";
const CROSS_SITE: &str = "The request comes from another site.";

/// Most bytes of a request's content.
pub(super) const CONTENT_BYTES_MAX: usize = 1 << 20;

/// How long a request's content may take.
const CONTENT_TIMEOUT: Duration = Duration::from_secs(10);
