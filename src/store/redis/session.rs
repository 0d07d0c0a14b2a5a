//! A worker's session with Redis: what can be asked, and which server answers.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use redis::Value;
use smallvec::SmallVec;

use super::call_error::CallError;
use super::cluster::slots::slot_of;
use super::observer::Observers;
use super::pipeline::Caller;
use super::primaries::Primaries;
use super::reply::list;
use super::shared::RedisShared;
use super::wire::{
    self, AnnouncementReply, AskingGateway, BadReply, DirectiveAction, Intent, KeyNames, Reply,
    Settlement,
};
use crate::clock::{Micros, Timestamp};
use crate::limit::{AnyState, Check, Decision, PartitionId, Verdict};
use crate::store::settings::RedisSettings;

/// A worker's session with Redis; lives on the worker's thread.
#[derive(Debug)]
pub(crate) struct RedisSession {
    shared: RedisShared,
    primaries: Primaries,
}

impl RedisSession {
    /// Opens the worker's connections, on its runtime; a decision may take `timeout`.
    ///
    /// The observers are told what happens to the servers, by the names that [`server`](Self::server)
    /// returns.
    pub(crate) fn open(
        shared: &RedisShared,
        settings: &RedisSettings,
        timeout: Duration,
        observers: Rc<dyn Observers>,
    ) -> Self {
        Self {
            shared: shared.clone(),
            primaries: Primaries::open(shared, settings, timeout, observers),
        }
    }

    /// Uses other credentials from now on.
    pub(crate) fn reconfigure(&self, settings: &RedisSettings) {
        self.primaries.reconfigure(settings);
    }

    /// Returns the name of the server that has a partition.
    ///
    /// As long as the server is known, this returns clones of one `Rc`, which is kept here, too.
    pub(crate) fn server(&self, partition_id: PartitionId) -> Rc<str> {
        self.primaries
            .server(|| slot_of(&KeyNames::tag(partition_id)))
    }

    /// Returns the name of the server where nodes announce themselves.
    pub(crate) fn nodes_server(&self) -> Rc<str> {
        (self.primaries).server(|| slot_of(&self.shared.names.nodes()))
    }

    /// Says whether two partitions may be in different slots, so that no single step decides both.
    pub(crate) fn is_cross_slot(&self, one: PartitionId, other: PartitionId) -> bool {
        let keeps_slots_apart =
            || !self.primaries.is_one_server() || self.shared.keeps_slots_apart.load(Relaxed);
        one != other && keeps_slots_apart()
    }

    /// Says whether there is a server to ask.
    pub(crate) fn is_known(&self) -> bool {
        self.primaries.is_known()
    }

    /// Notes that the server that has a partition did not answer in time.
    pub(crate) fn suspect(&self, partition_id: PartitionId) {
        self.primaries
            .suspect(|| slot_of(&KeyNames::tag(partition_id)));
    }

    /// Lets Redis decide a plan that a single step can decide. Writes the verdict into `verdict`, which must be empty,
    /// and returns the raw reply.
    ///
    /// # Errors
    /// How the call ended. Unless the error says otherwise, the plan may have been charged.
    pub(crate) async fn decide(
        &self,
        plan: &[Check<'_>],
        asking: Option<&AskingGateway>,
        caller: &Caller<'_>,
        verdict: &mut Verdict,
    ) -> Result<Reply, CallError> {
        let reply = self.ask(plan, Intent::Decide, asking, caller).await?;
        wire::verdict(plan, &reply, verdict)?;
        Ok(reply)
    }

    /// Returns what Redis would answer a plan that a single step can decide, and the raw reply.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn peek(
        &self,
        plan: &[Check<'_>],
        caller: &Caller<'_>,
    ) -> Result<(SmallVec<[Option<Decision>; 4]>, Reply), CallError> {
        let reply = self.ask(plan, Intent::Peek, None, caller).await?;
        Ok((wire::peeks(plan, &reply)?, reply))
    }

    /// Asks about a plan, and asks once more if the server's clock is so far from this process's that its time is in
    /// other windows of a calendar.
    async fn ask(
        &self,
        plan: &[Check<'_>],
        intent: Intent,
        asking: Option<&AskingGateway>,
        caller: &Caller<'_>,
    ) -> Result<Reply, CallError> {
        let (names, clock) = (&self.shared.names, &self.shared.clock);
        let packed = wire::pack(plan, names, intent, asking, || clock.now());
        let reply = self.primaries.decide(packed, caller).await?;
        if !reply.is_outside() {
            return Ok(reply);
        }
        let packed = wire::pack(plan, names, intent, asking, || reply.time);
        self.primaries.decide(packed, caller).await
    }

    /// Settles entries that a single step can settle; returns the index and the error of each that was not settled.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn settle(
        &self,
        settlements: &[Settlement<'_>],
        caller: &Caller<'_>,
    ) -> Result<Vec<(usize, CallError)>, CallError> {
        let (mut failed, mut outside) = (Vec::new(), SmallVec::<[_; 1]>::new());
        let settled = self.settle_at(settlements, caller, None).await?;
        for (index, reply) in list(&settled)
            .ok_or(CallError::BadReply)?
            .iter()
            .enumerate()
        {
            let Value::ServerError(error) = reply else {
                continue;
            };
            let error = CallError::from_server(error);
            match &error {
                CallError::Server(text) if let Some(at) = wire::outside_at(text) => {
                    outside.push((index, at));
                }
                _ => failed.push((index, error)),
            }
        }
        for (index, at) in outside {
            // The other entries are settled and must not be sent again, so an error of this call is this entry's alone.
            match (self.settle_at(&settlements[index..=index], caller, Some(at))).await {
                Ok(settled) => {
                    if let Some([Value::ServerError(error)]) = list(&settled) {
                        failed.push((index, CallError::from_server(error)));
                    }
                }
                Err(error) => failed.push((index, error)),
            }
        }
        Ok(failed)
    }

    /// Settles entries that a single step can settle; returns for each when it was settled and the state after that, or
    /// why it was not settled.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn settle_and_read(
        &self,
        settlements: &[Settlement<'_>],
        caller: &Caller<'_>,
    ) -> Result<Vec<Result<(Timestamp, AnyState), CallError>>, CallError> {
        let reply = self.settle_at(settlements, caller, None).await?;
        let entries = list(&reply).ok_or(CallError::BadReply)?;
        let mut states = Vec::with_capacity(entries.len());
        for (settlement, entry) in settlements.iter().zip(entries) {
            let read =
                |entry| read_entry(entry, |entry| wire::settled_state(settlement.quota, entry));
            let mut state = read(entry);
            if let Err(CallError::Server(text)) = &state
                && let Some(at) = wire::outside_at(text)
            {
                let again = std::slice::from_ref(settlement);
                state = match self.settle_at(again, caller, Some(at)).await {
                    Ok(reply) => {
                        let entry = list(&reply).and_then(<[Value]>::first);
                        read(entry.unwrap_or(&Value::Nil))
                    }
                    Err(error) => Err(error),
                };
            }
            states.push(state);
        }
        Ok(states)
    }

    /// Announces how many units in flight this gateway holds; returns for each announcement the server's answer, or why
    /// the server could not note it.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn announce_units(
        &self,
        announcements: &[Settlement<'_>],
        caller: &Caller<'_>,
    ) -> Result<Vec<Result<AnnouncementReply, CallError>>, CallError> {
        let reply = self.settle_at(announcements, caller, None).await?;
        let entries = list(&reply).ok_or(CallError::BadReply)?;
        let read = |entry| read_entry(entry, wire::announcement_reply);
        Ok(entries.iter().map(read).collect())
    }

    /// Settles entries that a single step can settle, on a server whose time is roughly `about`, or roughly this
    /// process's time if that is not given.
    async fn settle_at(
        &self,
        settlements: &[Settlement<'_>],
        caller: &Caller<'_>,
        about: Option<Timestamp>,
    ) -> Result<Value, CallError> {
        let (names, clock) = (&self.shared.names, &self.shared.clock);
        let now = || about.unwrap_or_else(|| clock.now());
        let call = wire::settle(settlements, names, clock.manual_now(), now);
        self.primaries.call(call, caller).await
    }

    /// Makes quotas of one partition whole again; returns the time of that, by the server's clock.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn reset(
        &self,
        resets: &[Settlement<'_>],
        caller: &Caller<'_>,
    ) -> Result<Timestamp, CallError> {
        let reply = self.settle_at(resets, caller, None).await?;
        let mut at = Err(CallError::BadReply);
        for settled in list(&reply).ok_or(CallError::BadReply)? {
            at = Ok(read_entry(settled, wire::settled_at)?);
        }
        at
    }

    /// Reads or changes the fleet's set of directives.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn directives(
        &self,
        action: DirectiveAction<'_>,
        caller: &Caller<'_>,
    ) -> Result<Value, CallError> {
        let call = wire::directives(&self.shared.names, action);
        self.primaries.call(call, caller).await
    }

    /// Announces a node, which counts for `lifetime`; returns how many nodes there are.
    ///
    /// # Errors
    /// How the call ended.
    pub(crate) async fn announce(
        &self,
        node: &str,
        lifetime: Micros,
        caller: &Caller<'_>,
    ) -> Result<u64, CallError> {
        let call = wire::announce(&self.shared.names, node, lifetime);
        let reply = self.primaries.call(call, caller).await?;
        Ok(wire::nodes(&reply)?)
    }
}

/// Reads what the settle script replied to one entry.
fn read_entry<T>(
    entry: &Value,
    read: impl FnOnce(&[u8]) -> Result<T, BadReply>,
) -> Result<T, CallError> {
    match entry {
        Value::ServerError(error) => Err(CallError::from_server(error)),
        Value::BulkString(entry) => Ok(read(entry)?),
        _ => Err(CallError::BadReply),
    }
}
