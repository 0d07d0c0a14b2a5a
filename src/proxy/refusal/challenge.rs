//! How a client that is not identified may identify itself: `WWW-Authenticate` (RFC 9110, section 11.6.1).

use http::HeaderValue;
use http::header::AUTHORIZATION;

use crate::request::{Choice, Part};

/// What a client that lacks a part of a partition is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A token or a credential in Authorization.
    Bearer,
    /// Anything else that names the client.
    ApiKey,
}

impl Challenge {
    /// Returns what is asked for if the request has none of these alternatives.
    pub fn of(choice: &Choice) -> Self {
        let is_token = |part: &Part| match part {
            Part::Claim(_) => true,
            Part::Header(name) => *name == AUTHORIZATION,
            _ => false,
        };
        if choice.0.iter().any(is_token) {
            Self::Bearer
        } else {
            Self::ApiKey
        }
    }

    pub(super) fn field(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Bearer => "Bearer",
            Self::ApiKey => r#"ApiKey realm="tollgate""#,
        })
    }
}
