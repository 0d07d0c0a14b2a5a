//! credits: a balance that time does not refill.
//!
//! State is the balance, or nothing while that is the initial one. Admit iff `cost <= balance`.

use serde::{Deserialize, Serialize};

use super::charged::Charged;
use super::quota::{Algorithm, COUNT_MAX, Decision, Quota, Retry};
use super::state::State;
use crate::clock::{Micros, Timestamp};

/// A client's balance; none while it is the initial one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credits(Option<i64>);

impl Credits {
    /// Makes the state of a balance that is not the initial one.
    pub fn new(balance: i64) -> Self {
        Self(Some(balance))
    }

    /// Returns the balance.
    pub fn balance(&self, quota: &Quota) -> i64 {
        self.0.unwrap_or_else(|| initial(quota))
    }

    fn change(&mut self, quota: &Quota, by: i64) {
        // Under another tier's quota, a stored balance may equal the initial one: a change of 0 must not drop it.
        if by == 0 {
            return;
        }
        let balance = self.balance(quota).saturating_add(by);
        let balance = balance.clamp(-BALANCE_MAX, BALANCE_MAX);
        self.0 = (balance != initial(quota)).then_some(balance);
    }
}

impl State for Credits {
    fn arrive(&mut self, _quota: &Quota, now: Timestamp) -> Timestamp {
        now
    }

    fn admits(&self, quota: &Quota, cost: u64, _at: Timestamp) -> bool {
        signed(cost) <= self.balance(quota)
    }

    fn charge(&mut self, quota: &Quota, cost: u64, at: Timestamp) -> Charged {
        self.change(quota, -signed(cost));
        Charged::plain(at, cost)
    }

    fn decision(&self, quota: &Quota, _cost: u64, _at: Timestamp, admit: bool) -> Decision {
        let balance = self.balance(quota);
        Decision {
            admit,
            remaining: balance.max(0).unsigned_abs(),
            debt: balance.min(0).unsigned_abs(),
            next: None,
            reset: Micros(0),
            retry: if admit { Retry::NOW } else { Retry::Never },
            wait: Micros(0),
        }
    }

    fn release(&mut self, quota: &Quota, _charged: Charged, amount: u64, _at: Timestamp) {
        self.change(quota, signed(amount));
    }

    /// A balance takes any units that are given back, by a release or by an operator.
    fn newest(&self, _quota: &Quota, at: Timestamp) -> Charged {
        Charged::plain(at, COUNT_MAX)
    }

    fn is_whole(&self, _quota: &Quota, _at: Timestamp) -> bool {
        self.0.is_none()
    }
}

fn initial(quota: &Quota) -> i64 {
    match quota.algorithm {
        Algorithm::Credits { initial } => signed(initial),
        _ => unreachable!("only credits have such states"),
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

/// Balances saturate here, on either side of 0.
const BALANCE_MAX: i64 = COUNT_MAX.cast_signed();
