//! One request and its answer, from the head's arrival to the end of the answer's body.

use std::rc::Rc;

use http::request::Parts;

use super::client::Client;
use super::downstream::http1::{RequestGuard, RequestState};
use super::record::Record;
use super::worker::InForce;
use crate::limiter::Decided;

/// What lives as long as a request does; it travels in the answer's body.
pub(crate) struct Exchange {
    /// Ends the request on its connection.
    request: RequestGuard,
    /// What the limiter decided, and the charge that may be given back.
    pub(crate) decided: Decided,
    /// What is recorded of it.
    pub(crate) record: Record,
}

impl Exchange {
    /// Begins an exchange whose head has arrived.
    pub(crate) fn begin(
        request: RequestGuard,
        client: &Rc<Client>,
        live: &Rc<InForce>,
        head: &Parts,
    ) -> Box<Self> {
        // Made where it stays, because it is large.
        Box::new(Self {
            request,
            decided: Decided::default(),
            record: Record::begin(client, live, &head.method, &head.uri),
        })
    }

    /// Returns the request on its connection.
    pub(crate) fn request(&self) -> &RequestState {
        &self.request
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.record.finish(&self.decided);
    }
}
