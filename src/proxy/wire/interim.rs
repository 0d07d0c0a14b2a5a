//! Interim answers (1xx) on their way from an origin to a client that is told of them.

use std::fmt::Debug;

use http::Response;

/// A client that is told of interim answers before the head of its answer.
pub trait InterimSink: Debug {
    /// Sends an interim answer to the client; the caller bounds how many there are, and their bytes.
    fn send(&self, interim: Response<()>);
}
