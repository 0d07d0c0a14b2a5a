//! A tunnel whose client's side is a stream of HTTP/2 (RFC 8441). It ends when the origin closes its
//! side.

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use http_body::Body as _;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use crate::proxy::downstream::body::RequestBody;
use crate::proxy::upstream::Switched;
use crate::proxy::wire::deadline::Deadline;
use crate::proxy::worker::Worker;

/// What an origin sends through a tunnel; the tunnel is closed when this is dropped.
pub(crate) struct TunnelBody {
    origin: ReadHalf<Switched>,
    upload: TunnelUpload,
    idle: Rc<Deadline>,
    timeout: Duration,
    /// Ready when the gateway ends its tunnels.
    end: LocalBoxFuture<'static, ()>,
    /// Whether the client has closed its side.
    is_upload_over: bool,
    is_over: bool,
}

/// The task that carries what the client sends; aborted when this is dropped.
struct TunnelUpload(JoinHandle<Result<(), BrokenTunnel>>);

/// Most bytes of one read.
const READ_BYTES_MAX: usize = 16 * 1024;

impl TunnelBody {
    /// Opens a tunnel: what `client` sends goes to the origin.
    pub(crate) fn new(
        origin: Switched,
        client: RequestBody,
        worker: Rc<Worker>,
        timeout: Duration,
    ) -> Self {
        let idle = worker.sweep.deadline();
        idle.arm(timeout);
        let (origin, to_origin) = tokio::io::split(origin);
        let upload = upload(client, to_origin, Rc::clone(&idle), timeout);
        Self {
            origin,
            upload: TunnelUpload(tokio::task::spawn_local(upload)),
            is_upload_over: false,
            idle,
            timeout,
            end: Box::pin(async move { worker.tunnels_end().await }),
            is_over: false,
        }
    }

    /// Polls what the origin has sent; none once it has closed its side, or the tunnel ends.
    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BrokenTunnel>>> {
        let mut room = [const { MaybeUninit::uninit() }; READ_BYTES_MAX];
        let mut room = ReadBuf::uninit(&mut room);
        let read = Pin::new(&mut self.origin).poll_read(cx, &mut room);
        if read.is_pending() {
            if !self.is_upload_over
                && let Poll::Ready(uploaded) = Pin::new(&mut self.upload.0).poll(cx)
            {
                self.is_upload_over = true;
                if !matches!(uploaded, Ok(Ok(()))) {
                    let broken = uploaded.ok().and_then(Result::err);
                    return Poll::Ready(Some(Err(broken.unwrap_or(BrokenTunnel::Client))));
                }
            }
            if self.end.as_mut().poll(cx).is_ready() {
                self.is_over = true;
                return Poll::Ready(None);
            }
            if self.idle.is_over() {
                return Poll::Ready(Some(Err(BrokenTunnel::Timeout)));
            }
            self.idle.register(cx);
        }
        if ready!(read).is_err() {
            return Poll::Ready(Some(Err(BrokenTunnel::Origin)));
        }
        if room.filled().is_empty() {
            self.is_over = true;
            return Poll::Ready(None);
        }
        self.idle.arm(self.timeout);
        Poll::Ready(Some(Ok(Bytes::copy_from_slice(room.filled()))))
    }

    /// Whether nothing more can come.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Why a tunnel ends before either side closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BrokenTunnel {
    /// Nothing has passed for the listener's `tunnel_timeout`.
    #[error("nothing passed through the tunnel for too long")]
    Timeout,
    /// The origin's connection failed.
    #[error("the origin broke the tunnel off")]
    Origin,
    /// The client left.
    #[error("the client broke the tunnel off")]
    Client,
}

/// Carries what a client sends, until it closes its side.
async fn upload(
    mut client: RequestBody,
    mut origin: WriteHalf<Switched>,
    idle: Rc<Deadline>,
    timeout: Duration,
) -> Result<(), BrokenTunnel> {
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut client).poll_frame(cx)).await {
        let frame = frame.map_err(|_| BrokenTunnel::Client)?;
        if let Ok(data) = frame.into_data() {
            idle.arm(timeout);
            let written = origin.write_all(&data).await;
            written.map_err(|_| BrokenTunnel::Origin)?;
            origin.flush().await.map_err(|_| BrokenTunnel::Origin)?;
        }
    }
    // An origin that has closed need not be told.
    let _ = origin.shutdown().await;
    Ok(())
}

impl Drop for TunnelUpload {
    fn drop(&mut self) {
        self.0.abort();
    }
}
