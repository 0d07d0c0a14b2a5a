//! Server-sent events: first those of the past, then each new one as it happens.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

/// Writes an event; `event` is its type, unless that is the default one.
pub(super) fn message(event: Option<&str>, data: impl std::fmt::Display) -> Bytes {
    Bytes::from(match event {
        Some(event) => format!("event: {event}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    })
}

/// Returns a comment, which shows that the stream is alive.
pub(super) fn heartbeat() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// Sends the events `was`, then those that follow. If none comes for a while, a comment shows that the stream is alive.
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

/// Longest time without an event before a stream sends a comment.
pub(super) const HEARTBEAT_AFTER: Duration = Duration::from_secs(10);
