//! Makes the calls that follow a decision, to give back, spend more or reset, and those by which nodes
//! announce themselves.

use redis::Value;

use super::bad_reply::BadReply;
use super::checks::{put_calendars, put_check, put_gateway, put_number};
use super::message::time_argument;
use super::names::KeyNames;
use super::script::Script;
use super::state_reply::{ReplyReader, read_state};
use crate::clock::{Micros, Timestamp};
use crate::limit::plan::SeriesId;
use crate::limit::{AnyState, Charged, PartitionId, Quota};
use crate::store::holder::GatewayId;

/// What is to happen to one quota of one partition after its decision.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'s> {
    /// The quota.
    pub quota: &'s Quota,
    /// The series that has the quota's states.
    pub series_id: SeriesId,
    /// The partition whose quota it is.
    pub partition_id: PartitionId,
    /// What is to happen to the quota.
    pub step: SettlementStep,
}

/// What a settlement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettlementStep {
    /// Gives back `amount` of a charge, at most what has not come back before.
    Release {
        /// The charge, without the units that came back before.
        charged: Charged,
        /// Units to give back.
        amount: u64,
    },
    /// Gives back this much, but at most the newest charge that still counts, whoever made it.
    ReleaseNewest(u64),
    /// Spends this much more, whether it fits or not.
    Spend(u64),
    /// Spends this much more, whether it fits or not, in the window or the bucket of a charge, if that still counts.
    /// Only for quotas with windows.
    SpendThen {
        /// The charge in whose window or bucket to spend.
        then: Charged,
        /// Units to spend.
        amount: u64,
    },
    /// Makes the quota whole again.
    Reset,
    /// Notes how many units in flight a gateway holds.
    Announce {
        /// The gateway.
        gateway: GatewayId,
        /// Units that the gateway holds.
        units: u64,
        /// Orders this announcement among all that the gateway announces and asks for.
        sequence: u64,
    },
}

/// A call of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub script: Script,
    /// The call's keys; on a Cluster, all are in one slot.
    pub keys: Vec<Box<[u8]>>,
    /// The call's arguments.
    pub arguments: Vec<Vec<u8>>,
}

/// Makes the call that settles these entries, whose keys are all on one server, at the time `at`, or at the server's
/// own. `now` returns roughly that time; it is called only for calendars.
pub fn settle(
    settlements: &[Settlement<'_>],
    names: &KeyNames,
    at: Option<Timestamp>,
    now: impl Fn() -> Timestamp,
) -> Call {
    let mut arguments = Vec::with_capacity(1 + settlements.len());
    arguments.extend(time_argument(at));
    arguments.extend(settlements.iter().map(|one| argument(one, &now)));
    Call {
        script: Script::Settle,
        keys: (settlements.iter())
            .map(|settlement| names.key(settlement.series_id, settlement.partition_id))
            .collect(),
        arguments,
    }
}

/// Reads when an entry was settled.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn settled_at(entry: &[u8]) -> Result<Timestamp, BadReply> {
    ReplyReader(entry).time()
}

/// Reads when an entry was settled, and the state of its quota after that.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn settled_state(quota: &Quota, entry: &[u8]) -> Result<(Timestamp, AnyState), BadReply> {
    let mut reader = ReplyReader(entry);
    let at = reader.time()?;
    Ok((at, read_state(quota, reader.0)?))
}

/// What the server answers to a gateway that announces how many units in flight it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncementReply {
    /// Whether the units must be announced again, because the server had seen something newer from the gateway.
    pub is_outdated: bool,
    /// Units that all gateways hold; none if the server is full and has no key for them.
    pub held: Option<u64>,
}

/// Reads the reply to an announcement of units in flight.
///
/// # Errors
/// If the reply is one that the script never gives.
pub fn announcement_reply(entry: &[u8]) -> Result<AnnouncementReply, BadReply> {
    let mut reader = ReplyReader(entry);
    reader.time()?;
    if reader.0.is_empty() {
        return Ok(AnnouncementReply {
            is_outdated: false,
            held: None,
        });
    }
    let reply = AnnouncementReply {
        is_outdated: reader.number(1)? != 0,
        held: Some(reader.number(7)?),
    };
    reader.end()?;
    Ok(reply)
}

/// Returns the server's time, if this error says that the windows of a calendar that were sent are not those around
/// that time.
pub fn outside_at(error: &str) -> Option<Timestamp> {
    let digits = error.strip_prefix("OUTSIDE ")?;
    digits.parse().ok().map(Timestamp)
}

/// Makes the call that announces a node, which counts as alive for `lifetime`.
pub fn announce(names: &KeyNames, node: &str, lifetime: Micros) -> Call {
    let lifetime_ms = lifetime.0.div_ceil(1000);
    Call {
        script: Script::Announce,
        keys: vec![names.nodes()],
        arguments: vec![node.into(), lifetime_ms.to_string().into_bytes()],
    }
}

/// Reads the number of nodes from the reply to [`announce`].
pub fn nodes(reply: &Value) -> Result<u64, BadReply> {
    match reply {
        Value::Int(nodes) => u64::try_from(*nodes).map_err(|_| BadReply),
        _ => Err(BadReply),
    }
}

/// Renders the argument for one entry as `lua/settle.lua` describes it.
fn argument(settlement: &Settlement<'_>, now: &impl Fn() -> Timestamp) -> Vec<u8> {
    let nothing = Charged::plain(Timestamp(0), 0);
    let (step, charged, amount) = match settlement.step {
        SettlementStep::Release { charged, amount } => (1, charged, amount.min(charged.amount)),
        SettlementStep::Spend(amount) => (2, nothing, amount),
        SettlementStep::SpendThen { then, amount } => (5, then, amount),
        SettlementStep::Reset => (3, nothing, 0),
        SettlementStep::ReleaseNewest(amount) => (4, nothing, amount),
        SettlementStep::Announce { units, .. } => (1, nothing, units),
    };
    let mut argument = vec![step];
    let phase = settlement.quota.phase(settlement.partition_id);
    let settled = settlement.quota;
    put_check(&mut argument, settled, phase, (amount, 0));
    for number in [charged.at.0, charged.amount, charged.debt.0, charged.mark] {
        put_number(&mut argument, number);
    }
    put_calendars(&mut argument, 1, [settled].into_iter(), now);
    if let SettlementStep::Announce {
        gateway, sequence, ..
    } = settlement.step
    {
        put_gateway(&mut argument, 1, gateway, 0, sequence);
    }
    argument
}
