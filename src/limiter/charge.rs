//! What a decision spent, for whoever may have to give it back.

use crate::limit::plan::SeriesId;
use crate::limit::{Adjustment, Decision};
use crate::store::{self, Session};

/// The units that one decision spent. Dropped, they stay spent; given back, they are the client's
/// again.
///
/// It lives until its request's answer has ended. Giving back never waits, so it can be done in a
/// drop: what has to be sent goes through a bounded queue of the worker.
#[derive(Debug)]
pub struct OpenCharge {
    store: Session,
    spent: store::Charge,
}

impl OpenCharge {
    pub(super) fn new(store: &Session, spent: store::Charge) -> Self {
        Self {
            store: store.clone(),
            spent,
        }
    }

    /// Says what one of its quotas has once all of it is given back.
    pub(super) fn after_give_back(&self, series_id: SeriesId, decision: Decision) -> Decision {
        self.spent
            .told(series_id, decision, Adjustment::GiveBack(u64::MAX))
    }

    /// Gives back all of it.
    pub fn give_back(mut self) {
        let all = |_| Adjustment::GiveBack(u64::MAX);
        self.store.settle_later(&mut self.spent, all);
    }
}
