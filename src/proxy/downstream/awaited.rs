//! What a connection waits for.

/// What a connection waits for its client to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The first byte of the connection; over HTTP/2, all of the preface.
    FirstByte,
    /// The rest of a head.
    Head,
    /// Nothing: a request is being worked on.
    Nothing,
    /// More of a body.
    Body,
    /// The next request.
    NextRequest,
}
