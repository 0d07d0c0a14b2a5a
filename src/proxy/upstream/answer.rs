//! What an upstream answers.

use http::Response;

use super::body::UpstreamBody;
use super::stream::Stream;
use crate::proxy::wire::rewound::Rewound;

/// A response; boxed, because it is large and moved often.
pub enum UpstreamAnswer {
    /// A response with its body.
    Body(Box<Response<UpstreamBody>>),
    /// A 101, with the connection, which now carries the protocol that the request asked for.
    Switched(Box<Response<Switched>>),
}

/// A connection to an origin that no longer speaks HTTP.
pub type Switched = Rewound<Stream>;
