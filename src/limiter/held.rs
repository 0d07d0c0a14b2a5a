//! Units in flight that a request holds.

use crate::limit::Adjustment;
use crate::store::{Charge, Session};

/// Units in flight that a request holds; they come back when this is dropped, whatever ends the request.
#[derive(Debug)]
pub(super) struct HeldUnits {
    store: Session,
    charge: Charge,
}

impl HeldUnits {
    /// Takes the units in flight out of what a request was charged; none if there are none.
    pub(super) fn take(store: &Session, charge: &mut Charge) -> Option<Box<Self>> {
        let charge = charge.take_held()?;
        Some(Box::new(Self {
            store: store.clone(),
            charge,
        }))
    }
}

impl Drop for HeldUnits {
    fn drop(&mut self) {
        let all = |_| Adjustment::GiveBack(u64::MAX);
        self.store.settle_later(&mut self.charge, all);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::clock::{Clock, Micros, Timestamp};
    use crate::limit::plan::SeriesId;
    use crate::limit::{Algorithm, Check, PartitionId, Quota};
    use crate::store::{MemoryStore, Store, StoreVerdict};

    #[test]
    fn a_panic_gives_back_what_its_request_held() {
        let clock = Clock::manual(Timestamp(0));
        let store = Store::Memory(Arc::new(MemoryStore::new(clock, 1 << 20))).session();
        let quota = Quota::of(Algorithm::InFlight, 1, Micros(0));
        let check = Check::of(&quota, SeriesId(0), PartitionId::new(1));
        let ask = || match store.decide(&[check]).now_or_never() {
            Some(StoreVerdict::Decided {
                verdict, charge, ..
            }) => (verdict.admit, charge),
            _ => panic!("memory answers at once"),
        };
        let (is_admitted, mut charge) = ask();
        assert!(is_admitted);
        let held = HeldUnits::take(&store, &mut charge);
        assert!(!ask().0);
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _held = held;
            panic!("as a request may");
        }));
        assert!(panicked.is_err());
        assert!(ask().0);
    }
}
