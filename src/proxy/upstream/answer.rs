//! What an upstream answers.

use http::Response;

use super::body::UpstreamBody;
use super::stream::Stream;
use crate::proxy::wire::rewound::Rewound;

/// A response. Boxed, because it is large, and passed on from hand to hand.
pub enum UpstreamAnswer {
    /// With its body.
    Body(Box<Response<UpstreamBody>>),
    /// After a 101, with bytes of the protocol that the request asked for.
    Switched(Box<Response<Switched>>),
}

/// A connection to an origin that speaks HTTP no more.
pub type Switched = Rewound<Stream>;
