//! Connections between requests: since when they wait, and how they give way to others.

use super::{Awaited, ClientSocket};
use crate::clock::{Micros, Timestamp};

impl ClientSocket {
    /// Since when it has waited for a request of which nothing has come yet; none if it does not.
    pub(crate) fn waiting_since(&self) -> Option<Timestamp> {
        let patience = match self.awaited() {
            // The end of an answer may still have to be taken.
            _ if self.write.is_armed() => return None,
            Awaited::FirstByte => self.timeouts.header,
            Awaited::NextRequest => self.timeouts.idle,
            Awaited::Head | Awaited::Nothing | Awaited::Body | Awaited::Close => return None,
        };
        self.read.due().map(|due| due - Micros::from(patience))
    }

    /// Ends the wait for a request, so that another connection has room; one that has come
    /// meanwhile is still answered.
    pub(crate) fn give_way(&self) {
        self.read.expire();
    }
}
