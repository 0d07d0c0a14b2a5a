//! A request to the admin port, read to its end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{StatusCode, request::Parts};
use serde_json::{Map, Value};

use super::reply::AdminReply;
use super::state::AdminState;
use crate::store::Session;

/// A request to the admin port, read to its end, with everything that is needed to answer it.
///
/// It lives on the control thread.
pub(super) struct AdminRequest {
    /// State of the gateway.
    pub(super) state: Arc<AdminState>,
    /// The control thread's session with the store.
    pub(super) session: Session,
    /// Address of the client.
    pub(super) peer: SocketAddr,
    /// Head of the request.
    pub(super) head: Parts,
    /// Content of the request.
    pub(super) content: Bytes,
}

impl AdminRequest {
    /// Whether the client's Accept fields name this content type.
    pub(super) fn accepts(&self, content_type: &str) -> bool {
        let values = self.head.headers.get_all(ACCEPT).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let mut accepted = values.flat_map(|value| value.split(','));
        accepted.any(|range| {
            let essence = range.split(';').next().unwrap_or_default();
            essence.trim().eq_ignore_ascii_case(content_type)
        })
    }

    /// Reads the query, which may have only the `known` parameters, each of them once.
    ///
    /// # Errors
    /// The reply that refuses the request.
    pub(super) fn query(&self, known: &[&str]) -> Result<HashMap<String, String>, AdminReply> {
        let wrong = |detail: String| AdminReply::problem(StatusCode::BAD_REQUEST, detail);
        let mut found = HashMap::new();
        let query = self.head.uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !known.contains(&&*name) {
                return Err(wrong(format!(
                    "A parameter is unknown; known are: `{}`.",
                    known.join("`, `")
                )));
            }
            if found
                .insert(name.into_owned(), value.into_owned())
                .is_some()
            {
                return Err(wrong("A parameter comes twice.".to_owned()));
            }
        }
        Ok(found)
    }

    /// Reads the content as a JSON object with only the `known` members; no content counts as an empty object.
    ///
    /// # Errors
    /// The reply that refuses the request.
    pub(super) fn members(&self, known: &[&str]) -> Result<Map<String, Value>, AdminReply> {
        if self.content.is_empty() {
            return Ok(Map::new());
        }
        let content_type = self.head.headers.get(CONTENT_TYPE);
        let content_type = content_type.map_or(&b""[..], |value| value.as_bytes());
        let essence = content_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        if !essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"application/json")
        {
            let detail = "The content must be JSON, and say so: `Content-Type: application/json`.";
            return Err(AdminReply::problem(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                detail,
            ));
        }
        let wrong = |detail: String| AdminReply::problem(StatusCode::BAD_REQUEST, detail);
        let members = match serde_json::from_slice(&self.content) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(wrong("The content must be a JSON object.".to_owned())),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let detail = format!("The content is not JSON: line {line}, column {column}.");
                return Err(wrong(detail));
            }
        };
        if members.keys().all(|name| known.contains(&&**name)) {
            return Ok(members);
        }
        Err(wrong(match known {
            [] => "This request takes no members.".to_owned(),
            _ => format!("A member is unknown; known are: `{}`.", known.join("`, `")),
        }))
    }
}
