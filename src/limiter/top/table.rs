//! A table of clients of constant size: those that matter most stay, however many others come.

use crate::limit::PartitionId;

/// Values of clients, in sets of a few slots: a client belongs to one set, and takes the weakest slot there.
#[derive(Clone, Debug)]
pub(super) struct ClientTable<V>(Box<[ClientSet<V>]>);

#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct ClientSet<V> {
    slots: [ClientSlot<V>; SET_LEN],
    /// The largest weight that a client had when another one took its slot.
    evicted: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ClientSlot<V> {
    /// The client; none if the slot is free.
    client: Option<PartitionId>,
    /// How the client is shown; none before its second request, because most clients of a flood make one.
    name: Option<Box<str>>,
    pub(super) value: V,
}

/// Where a client is, or would be.
pub(super) enum ClientPlace<'t, V> {
    /// It has this slot.
    Own(&'t mut ClientSlot<V>),
    /// It has none: the weakest slot of its set, and the largest weight that a client of the set had when another one
    /// took its slot.
    Weakest(&'t mut ClientSlot<V>, &'t mut u64),
}

impl<V: Clone + Default> ClientTable<V> {
    /// Finds a client; `weight` says how much a slot matters.
    pub(super) fn find(
        &mut self,
        client: PartitionId,
        weight: impl Fn(&V) -> u64,
    ) -> ClientPlace<'_, V> {
        if self.0.is_empty() {
            self.allocate();
        }
        let ClientSet { slots, evicted } = &mut self.0[set_of(client)];
        if let Some(own) = slots.iter().position(|slot| slot.client == Some(client)) {
            return ClientPlace::Own(&mut slots[own]);
        }
        let weakest = slots.iter_mut().min_by_key(|slot| weight(&slot.value));
        ClientPlace::Weakest(weakest.expect("a set has slots"), evicted)
    }

    #[cold]
    fn allocate(&mut self) {
        self.0 = vec![ClientSet::default(); SETS].into();
    }
}

impl<V> ClientTable<V> {
    /// Says whether the table has never been used.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a client's value; if it has none, the largest weight that it may have had.
    pub(super) fn get(&self, client: PartitionId) -> Result<&V, u64> {
        let set = self.0.get(set_of(client)).ok_or(0_u64)?;
        let own = set.slots.iter().find(|slot| slot.client == Some(client));
        own.map(|slot| &slot.value).ok_or(set.evicted)
    }

    /// Yields the clients, how they are shown if that is known, and their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PartitionId, Option<&str>, &V)> {
        let slots = self.0.iter().flat_map(|set| &set.slots);
        slots.filter_map(|slot| Some((slot.client?, slot.name.as_deref(), &slot.value)))
    }
}

impl<V> ClientSlot<V> {
    /// Gives the slot to another client.
    pub(super) fn replace(&mut self, client: PartitionId, value: V) {
        *self = Self {
            client: Some(client),
            name: None,
            value,
        };
    }

    /// Notes how the client is shown, if that is not known.
    pub(super) fn name(&mut self, name: impl FnOnce() -> Box<str>) {
        self.name.get_or_insert_with(name);
    }
}

impl<V> Default for ClientTable<V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
fn set_of(client: PartitionId) -> usize {
    client.high() as usize % SETS
}

const SETS: usize = 16;
/// Slots of a set.
const SET_LEN: usize = 8;
