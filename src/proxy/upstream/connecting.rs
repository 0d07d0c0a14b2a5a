//! Where a request's connection comes from: one that is kept or shared, or a new one.
//!
//! As long as an endpoint may speak HTTP/2, one request connects and others wait for that: what comes
//! of it may carry them all. If it speaks HTTP/1.1, each then connects by itself.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use super::Meter;
use super::error::ForwardError;
use super::http1;
use super::http2;
use super::origin::{ConnectError, Offer, Origin};
use super::pool::Pools;
use super::stream::Stream;
use crate::snapshot::HttpUpstream;

/// A connection for one request.
pub(super) enum Link {
    /// It is this request's alone.
    Http1(http1::Connection<Stream>),
    /// It is shared.
    Http2(http2::Slot),
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It was there, so the origin may have ended it.
    Kept,
    /// It is new.
    New,
}

/// An attempt to connect that other requests wait for.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    ended: Notify,
    has_ended: Cell<bool>,
    /// Why it failed; none if it did not, or was given up.
    error: RefCell<Option<ConnectError>>,
}

/// Held by who makes the attempt, which ends when this is dropped.
struct Attempting<'o> {
    origin: &'o Origin,
    attempt: Rc<Attempt>,
}

impl Attempt {
    async fn wait(&self) {
        let ended = self.ended.notified();
        if !self.has_ended.get() {
            ended.await;
        }
    }
}

impl Drop for Attempting<'_> {
    fn drop(&mut self) {
        self.origin.attempt().take();
        self.attempt.has_ended.set(true);
        self.attempt.ended.notify_waiters();
    }
}

/// Finds a connection on which the origin has room, or opens one.
pub(super) async fn connect(
    pools: &Pools,
    origin: &Rc<Origin>,
    http: &HttpUpstream,
    offer: Offer,
    meter: Meter<'_>,
) -> Result<(Link, Found), ForwardError> {
    loop {
        if offer == Offer::Any
            && let Some(slot) = origin.slot(http)
        {
            meter.metrics.reused(meter.worker);
            return Ok((Link::Http2(slot), Found::Kept));
        }
        if !origin.may_share(offer) {
            return open(pools, origin, http, offer, meter).await;
        }
        let attempt = origin.attempt().clone();
        let Some(attempt) = attempt else {
            let attempt = Rc::<Attempt>::default();
            *origin.attempt() = Some(Rc::clone(&attempt));
            let attempting = Attempting { origin, attempt };
            let opened = open(pools, origin, http, offer, meter).await;
            if let Err(ForwardError::Connect(error) | ForwardError::NoEndpoint(Some(error))) =
                &opened
            {
                *attempting.attempt.error.borrow_mut() = Some(error.clone());
            }
            return opened;
        };
        attempt.wait().await;
        if let Some(error) = &*attempt.error.borrow() {
            return Err(error.clone().into());
        }
    }
}

/// Opens a connection.
async fn open(
    pools: &Pools,
    origin: &Rc<Origin>,
    http: &HttpUpstream,
    offer: Offer,
    meter: Meter<'_>,
) -> Result<(Link, Found), ForwardError> {
    let link = pools
        .connect(origin, http, offer)
        .await
        .inspect_err(|error| {
            if let ConnectError::Tls { source, .. } = error {
                meter.metrics.tls_failed(meter.worker, *source);
            }
        })?;
    meter.metrics.opened(meter.worker);
    Ok((link, Found::New))
}
