//! Server-sent events: what was, and then each thing that follows, as it happens.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

/// Writes an event; `event` names it, unless it is the usual one.
pub(super) fn message(event: Option<&str>, data: impl std::fmt::Display) -> Bytes {
    Bytes::from(match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    })
}

/// Returns a comment that shows that the stream stands.
pub(super) fn heartbeat() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// Sends what was, and then what follows. When that is nothing for a while, a comment shows that the stream stands.
pub(super) fn follow<T: Clone + Send + 'static>(
    was: Vec<Bytes>,
    follows: Receiver<T>,
    render: fn(T) -> Bytes,
) -> BoxStream<'static, Bytes> {
    let follows = stream::unfold(follows, move |mut follows| async move {
        let said = match timeout(HEARTBEAT_AFTER, follows.recv()).await {
            Ok(Ok(one)) => render(one),
            Ok(Err(RecvError::Lagged(missed))) => message(Some("missed"), missed),
            Ok(Err(RecvError::Closed)) => return None,
            Err(_) => heartbeat(),
        };
        Some((said, follows))
    });
    stream::iter(was).chain(follows).boxed()
}

/// How long a stream says nothing at most.
pub(super) const HEARTBEAT_AFTER: Duration = Duration::from_secs(10);
