//! What a request costs when it is decided: a fixed number, what its head says, or what is reserved by its body.

use http::HeaderMap;

use super::decided::Admission;
use crate::cost::{Numbers, PriceRow};
use crate::snapshot::{AppliedPolicy, CostSource, Policy, PolicyMode};

/// What a plan reserves by, if a body tells the cost.
#[derive(Clone, Copy, Debug)]
pub enum Reserve<'n> {
    /// What was read of the request.
    Read(&'n Numbers),
    /// What the request's head says: it gives the smallest reserve that the body could lead to.
    Unread(&'n Numbers),
}

/// Returns what a request is charged when it is decided, and at which prices.
///
/// # Errors
/// What refuses it if its policy enforces: the cost that its client states is not a plain decimal, or has no price.
pub(super) fn cost(
    policy: &Policy,
    applied: &AppliedPolicy,
    headers: &HeaderMap,
    reserve: Option<Reserve<'_>>,
) -> Result<(u64, PriceRow), Admission> {
    let index = applied.policy;
    let is_enforced = policy.mode == Some(PolicyMode::Enforce);
    match (&applied.body_cost, reserve) {
        (Some(cost), Some(Reserve::Read(numbers))) => {
            let row = match cost.price_row(numbers) {
                Some(row) => row,
                None if is_enforced => return Err(Admission::UnknownPrice { policy: index }),
                None => PriceRow::Dearest,
            };
            return Ok((cost.reserve(numbers, row), row));
        }
        (Some(cost), Some(Reserve::Unread(numbers))) => {
            return Ok((cost.reserve_at_least(numbers), PriceRow::NoTable));
        }
        _ => {}
    }
    match header_cost(policy, applied, headers) {
        None if is_enforced => Err(Admission::BadCost { policy: index }),
        cost => Ok((cost.unwrap_or(applied.cost), PriceRow::NoTable)),
    }
}

/// Returns what a request costs by its head; none if the cost that the client states is not one plain decimal.
fn header_cost(policy: &Policy, applied: &AppliedPolicy, headers: &HeaderMap) -> Option<u64> {
    let reported = policy.reported_cost.as_ref();
    let Some(reported) = reported.and_then(|reported| reported.header_of(CostSource::Request))
    else {
        return Some(applied.cost);
    };
    let mut values = headers.get_all(&reported.header).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(reported.reserve),
        (Some(value), None) => reported.read(value.as_bytes()),
        (Some(_), Some(_)) => None,
    }
}
