//! Buys units ahead, and gives back those that were not spent.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::decider::Decider;
use super::leases::{Bought, LeaseTerms, PurchaseTurn};
use super::owned_plan::OwnedPlan;
use super::quota_key::QuotaKey;
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::{CheckMode, OnStoreFailure};
use crate::limit::{Algorithm, Charged, Check, Decision, OldestBucket, Plan, Quota, Retry};
use crate::store::outcome::StoreVerdict;

/// What a worker needs to buy units ahead.
#[derive(Debug)]
pub(super) struct Leasing {
    pub(super) decider: Rc<Decider>,
    /// How many purchases are under way.
    purchases: Cell<usize>,
    /// Notified when a purchase has ended.
    ended: Notify,
}

/// What is known of the units that Redis has left for a busy client.
pub(super) enum Supply {
    /// Enough, as far as this gateway knows.
    Ample,
    /// They come back one by one, and are left to gather, because otherwise each would cost a call. Until then the
    /// client is told this decision.
    Gathers(Decision),
    /// Too few for all gateways: this gateway's part of them.
    Short(u64),
}

/// A purchase that is under way; it ends when this is dropped.
struct OpenPurchase {
    leasing: Rc<Leasing>,
    keys: Vec<QuotaKey>,
}

impl Leasing {
    pub(super) fn new(decider: &Rc<Decider>) -> Self {
        Self {
            decider: Rc::clone(decider),
            purchases: Cell::new(0),
            ended: Notify::new(),
        }
    }

    /// Buys the units that the leased checks of a plan lack, all or nothing, in the background. Returns a future that
    /// is ready when this purchase, and those of other requests for the same quotas, have ended; none if that does not
    /// help this plan.
    pub(super) fn buy(
        self: &Rc<Self>,
        plan: &[Check<'_>],
        terms: &LeaseTerms,
    ) -> Option<impl Future<Output = ()> + use<>> {
        let store = self.decider.remote.store();
        let (mut checks, mut waits) = (Plan::new(), Vec::new());
        let mut open = OpenPurchase::new(self);
        for check in plan.iter().filter(|check| terms.leases(check)) {
            if self.decider.remote.is_barred(check.partition_id) {
                return None;
            }
            match store.leases.begin_purchase(check, terms) {
                PurchaseTurn::AskRedis => return None,
                PurchaseTurn::Held => {}
                PurchaseTurn::UnderWay(bought) => waits.push(bought),
                PurchaseTurn::Buy(missing, bought) => {
                    waits.push(bought);
                    open.keys.push(QuotaKey::of(check));
                    let cost = match self.supply(check, missing, terms) {
                        Supply::Ample => missing,
                        Supply::Short(left) if left > check.cost => missing.min(left),
                        Supply::Short(_) | Supply::Gathers(_) => return None,
                    };
                    checks.push(Check {
                        cost,
                        mode: CheckMode::Enforce,
                        // If Redis does not answer, the units are not counted, and so not bought.
                        on_store_failure: OnStoreFailure::Open,
                        ..*check
                    });
                }
            }
        }
        if !checks.is_empty() {
            tokio::task::spawn_local(open.carry_out(OwnedPlan::of(&checks)));
        }
        (!waits.is_empty()).then(|| ended(waits))
    }

    /// Returns what is known of the units that Redis has left for a check that lacks `missing` units here. They are
    /// enough if every gateway may buy as many: otherwise gateways would take turns in being refused.
    pub(super) fn supply(&self, check: &Check<'_>, missing: u64, terms: &LeaseTerms) -> Supply {
        let for_all = missing.saturating_mul(terms.nodes.into());
        let asked = Check {
            // Waiting for a bucket to become fuller would let units overflow.
            cost: for_all.min(check.quota.capacity() / 2).max(missing),
            mode: CheckMode::Enforce,
            ..*check
        };
        let store = self.decider.remote.store();
        let now = store.clock.now();
        let known = store.refusals.known(&asked, now);
        let Some((decision, asked)) = known else {
            return Supply::Ample;
        };
        let age = now.since(asked.received);
        let is_soon = decision.next.is_some_and(|next| next < GATHERED_FOR);
        // Waiting pays only if it brings more units than are left now.
        let gains = decision.remaining < gathered(check.quota);
        if age < GATHERED_FOR && is_soon && gains {
            let left = Micros(GATHERED_FOR.0 - age.0);
            return Supply::Gathers(Decision {
                remaining: 0,
                retry: decision.retry.min(Retry::After(left)),
                ..decision
            });
        }
        Supply::Short(decision.remaining / u64::from(terms.nodes.max(1)))
    }

    /// Keeps the units of a purchase; gives them back if it was decided without Redis.
    fn keep_bought(&self, plan: &[Check<'_>], sent: Timestamp, outcome: StoreVerdict) {
        let StoreVerdict::Decided {
            verdict,
            charge,
            is_degraded,
        } = outcome
        else {
            return;
        };
        if is_degraded {
            return (self.decider.settlements).give_back(&self.decider.remote, charge);
        }
        let store = self.decider.remote.store();
        let terms = store.lease_terms();
        for (check, answer) in plan.iter().zip(&verdict.answers) {
            let Some(decision) = answer.decision else {
                continue;
            };
            let Some(charged) = answer.charged else {
                store.leases.answered(check, decision, terms.now);
                continue;
            };
            let bought = Bought {
                charged,
                decision,
                sent,
            };
            let is_forgotten = |charged: &Charged| store.was_reset_since(check, charged);
            self.decider
                .give_back_units(store.leases.bought(check, bought, &terms, is_forgotten));
        }
    }

    /// Gives back units that are not to be held any longer. To be called several times a second.
    pub(super) fn sweep(&self) {
        let store = self.decider.remote.store();
        let terms = store.lease_terms();
        let is_barred = |partition_id| self.decider.remote.is_barred(partition_id);
        self.decider
            .give_back_units(store.leases.sweep(&terms, is_barred));
    }

    /// Stops purchases, of all workers; waits for those of this worker that are under way, for at most `timeout`; then
    /// gives back all held units.
    pub(super) async fn close(&self, timeout: Duration) {
        let store = self.decider.remote.store();
        store.leases.close();
        let ended = async {
            while self.purchases.get() > 0 {
                self.ended.notified().await;
            }
        };
        let _ = tokio::time::timeout(timeout, ended).await;
        self.decider
            .give_back_units(store.leases.take_all(store.clock.steady()));
    }
}

impl OpenPurchase {
    fn new(leasing: &Rc<Leasing>) -> Self {
        let purchases = &leasing.purchases;
        purchases.set(purchases.get() + 1);
        Self {
            leasing: Rc::clone(leasing),
            keys: Vec::new(),
        }
    }

    /// Asks Redis for the units, and keeps them.
    async fn carry_out(self, owned: OwnedPlan) {
        let (plan, decider) = (owned.plan(), &self.leasing.decider);
        let sent = decider.remote.store().clock.steady();
        let outcome = decider.decide(&plan, Duration::ZERO).await;
        self.leasing.keep_bought(&plan, sent, outcome);
    }
}

impl Drop for OpenPurchase {
    fn drop(&mut self) {
        let Leasing {
            decider,
            purchases,
            ended,
        } = &*self.leasing;
        for key in &self.keys {
            decider.remote.store().leases.end_purchase(*key);
        }
        purchases.set(purchases.get() - 1);
        ended.notify_waiters();
    }
}

/// Returns how many units of a quota come back in [`GATHERED_FOR`] on average; 0 if they do not come back one by one.
fn gathered(quota: &Quota) -> u64 {
    match quota.algorithm {
        Algorithm::Gcra { .. }
        | Algorithm::SlidingWindow {
            oldest: OldestBucket::Weighted,
            ..
        } => quota.limit.saturating_mul(GATHERED_FOR.0) / quota.window.0.max(1),
        _ => 0,
    }
}

/// How long units that come back one by one are left to gather.
const GATHERED_FOR: Micros = Micros(50_000);

/// Waits until all these purchases have ended.
async fn ended(purchases: Vec<OwnedNotified>) {
    join_all(purchases).await;
}
