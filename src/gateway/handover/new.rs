//! The new process: takes over what the old one passes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::channel::{Channel, ChannelError};
use super::message::{Begin, FromNew, FromOld};
use super::old::Drainers;
use super::{PROTOCOL, STEP_WITHIN, VARIABLE};
use crate::build_info;
use crate::clock::{Clock, monotonic};
use crate::gateway::sockets::{GivenSocket, GivenSockets, SocketRole};
use crate::keys::ActiveSources;
use crate::limit::Quota;
use crate::limit::plan::SeriesId;
use crate::proxy::process::Process;
use crate::snapshot::Policy;
use crate::store::directives::DirectiveSet;
use crate::store::{COUNTERS_VERSION, MemoryStore, SeriesStates, Store};

/// The process that this one takes over from.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
    begin: Begin,
    /// Descriptors of the listening sockets, followed by the channels of the processes that drain.
    descriptors: Vec<OwnedFd>,
}

/// Parts of the new gateway that a take-over needs.
pub(in crate::gateway) struct TakeOver<'g> {
    pub(in crate::gateway) process: &'g Process,
    pub(in crate::gateway) sources: &'g ActiveSources,
    /// For each listener, its number among those that the old process passed, if it is one of them.
    pub(in crate::gateway) given_as: &'g [Option<usize>],
    pub(in crate::gateway) drainers: &'g Drainers,
}

impl Predecessor {
    /// Returns the process that this one was started to take over from, if any, once that has passed its sockets.
    ///
    /// # Errors
    /// If the old process cannot be understood, has ended, or is silent.
    pub fn of_this_process() -> Result<Option<Self>, ChannelError> {
        let Some(version) = std::env::var_os(VARIABLE) else {
            return Ok(None);
        };
        let channel = take_standard_input().map_err(ChannelError::System)?;
        let channel = Channel::from_descriptor(channel);
        if version != PROTOCOL {
            let reason = format!(
                "versions {} and {PROTOCOL} of the hand-over differ: stop the old process, and start the new one",
                version.display()
            );
            tell_failed(&channel, reason, None);
            return Err(ChannelError::Nonsense);
        }
        let (FromOld::Begin(begin), mut descriptors) = channel.receive(Some(STEP_WITHIN))? else {
            return Err(ChannelError::Nonsense);
        };
        while descriptors.len() < begin.descriptors() {
            match channel.receive(Some(STEP_WITHIN))? {
                (FromOld::Descriptors, more) if !more.is_empty() => descriptors.extend(more),
                _ => return Err(ChannelError::Nonsense),
            }
        }
        Ok(Some(Self {
            channel,
            begin: *begin,
            descriptors,
        }))
    }

    /// Returns a clock that agrees with the old process's.
    pub fn clock(&self) -> Clock {
        Clock::system_ahead(self.begin.clock_ahead_us)
    }

    /// Tells the old process that this one cannot serve.
    pub fn fail(&self, reason: String, report: Option<String>) {
        tell_failed(&self.channel, reason, report);
    }

    /// Returns the old process's key of partition ids.
    pub(in crate::gateway) fn random_key(&self) -> [u8; 32] {
        self.begin.random_key
    }

    /// Takes the listening sockets.
    pub(in crate::gateway) fn sockets(&mut self) -> GivenSockets {
        let listeners = self.begin.listeners.iter().enumerate();
        let listeners = listeners.map(|(index, address)| (SocketRole::Listener(index), address));
        let admin = self.begin.admin.iter();
        let all = listeners.chain(admin.map(|address| (SocketRole::Admin, address)));
        let count = self.begin.listeners.len() + usize::from(self.begin.admin.is_some());
        let descriptors = self.descriptors.drain(..count);
        let given = all
            .zip(descriptors)
            .map(|((role, address), descriptor)| GivenSocket {
                role,
                name: None,
                configured: address.configured.clone(),
                bound: address.bound.clone(),
                is_own: address.is_own,
                descriptor,
            });
        GivenSockets(given.collect())
    }

    /// Takes over; calls `accept` once everything has been passed.
    ///
    /// # Errors
    /// If the hand-over fails; the old process then goes on serving.
    pub(in crate::gateway) fn take_over(
        &mut self,
        gateway: &TakeOver<'_>,
        accept: impl FnOnce(),
    ) -> Result<(), ChannelError> {
        let TakeOver {
            process,
            sources,
            given_as,
            drainers,
        } = gateway;
        await_within(CONNECTS_WITHIN, || {
            sources.is_known.load(Relaxed) && process.endpoints.are_names_known()
        });
        let listeners = 0..self.begin.listeners.len();
        let memory = self.memory(process);
        let ready = FromNew::Ready {
            version: build_info::VERSION.to_owned(),
            adopted: listeners
                .map(|number| given_as.contains(&Some(number)))
                .collect(),
            takes_counters: memory.is_some(),
        };
        self.channel.send(&ready, &[], STEP_WITHIN)?;
        let mut counters = AdoptedCounters::new(process);
        loop {
            match self.channel.receive(Some(STEP_WITHIN))?.0 {
                FromOld::Counters(passed) => {
                    let memory = memory.ok_or(ChannelError::Nonsense)?;
                    for states in passed {
                        counters.adopt(memory, states);
                    }
                }
                FromOld::Directives(set) => {
                    let memory = memory.ok_or(ChannelError::Nonsense)?;
                    adopt_directives(memory, set, sources, process);
                }
                FromOld::TakeOver => break,
                _ => return Err(ChannelError::Nonsense),
            }
        }
        counters.say();
        accept();
        self.channel.send(&FromNew::Serving, &[], STEP_WITHIN)?;
        // No time limit here: the old process may be stopped by a signal, and learns that this one serves when it
        // continues. If it has given up by then, it kills this one.
        loop {
            match self.channel.receive(None) {
                Ok((FromOld::Leasing(passed), _)) => {
                    if let Store::Redis(store) = &process.store {
                        store.take_leasing_over(&passed);
                    }
                }
                Ok((FromOld::Confirmed, _)) | Err(ChannelError::Ended) => break,
                Ok(_) => return Err(ChannelError::Nonsense),
                Err(error) => return Err(error),
            }
        }
        let older = self.descriptors.drain(..).map(Channel::from_descriptor);
        let newest = self.channel.try_clone().map_err(ChannelError::System)?;
        for one in older.chain([newest]) {
            drainers.add(one);
        }
        Ok(())
    }

    /// Returns the store that takes the counters over, if both processes count in memory and in the same format.
    fn memory<'p>(&self, process: &'p Process) -> Option<&'p MemoryStore> {
        let Store::Memory(memory) = &process.store else {
            return None;
        };
        if !self.begin.has_counters {
            return None;
        }
        if self.begin.counters_version != COUNTERS_VERSION {
            tracing::warn!(
                old = self.begin.version,
                "the old process has another counter format: every client starts with a whole quota"
            );
            return None;
        }
        Some(memory)
    }
}

/// Takes the old process's counters over.
struct AdoptedCounters {
    /// Quotas of the new configuration, by series; counters of other series are dropped.
    quotas: HashMap<SeriesId, Quota>,
    adopted: usize,
}

impl AdoptedCounters {
    fn new(process: &Process) -> Self {
        let live = process.live();
        let quotas = live.snapshot.policies.iter().flat_map(Policy::every_quota);
        Self {
            quotas: quotas
                .map(|(quota, series_id)| (series_id, *quota))
                .collect(),
            adopted: 0,
        }
    }

    fn adopt(&mut self, memory: &MemoryStore, states: SeriesStates) {
        let series_id = memory.series_id(&states.series);
        let Some(quota) = self.quotas.get(&series_id) else {
            return;
        };
        self.adopted += memory.adopt(series_id, quota, states);
    }

    fn say(&self) {
        tracing::info!(
            partitions = self.adopted,
            "counters of the old process are taken over"
        );
    }
}

/// Puts the old process's directives in force, and waits until they are.
fn adopt_directives(
    memory: &MemoryStore,
    set: DirectiveSet,
    sources: &ActiveSources,
    process: &Process,
) {
    let now = process.clock.now();
    let count = set.entries.iter().filter(|entry| entry.until > now).count();
    memory.adopt_directives(set);
    sources.given.notify_one();
    await_within(ORDERS_WITHIN, || sources.parts().directives.len() >= count);
}

/// Waits until `is_so` returns true, for at most `most`.
fn await_within(most: Duration, is_so: impl Fn() -> bool) {
    let end: Instant = monotonic() + most;
    while !is_so() && monotonic() < end {
        std::thread::sleep(POLL_EVERY);
    }
}

fn tell_failed(channel: &Channel, reason: String, report: Option<String>) {
    // If the message does not arrive, the old process sees this one end.
    let _ = channel.send(&FromNew::Failed { reason, report }, &[], STEP_WITHIN);
}

/// Takes the socket from the standard input, and puts `/dev/null` in its place.
fn take_standard_input() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(nothing)?;
    Ok(socket)
}

/// How long to wait for Redis and names; after that, the new process serves without them, as the old one would.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait until the old process's directives are in force.
const ORDERS_WITHIN: Duration = Duration::from_secs(5);

const POLL_EVERY: Duration = Duration::from_millis(5);
