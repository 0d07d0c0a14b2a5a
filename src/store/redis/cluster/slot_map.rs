//! Says which node a slot's calls go to: the slots as they were learned last, and one node per primary.
//!
//! A node that is in the next map too stays the same value, with its connection; a node that is not
//! is dropped. A slot without a node in the next map stays with the node that it had: during a failover,
//! the node that was asked may know that the old primary has lost its slots, but not yet which node has
//! them now. A node that `ASK` names may have no slot yet: it is a guest, and stays as long as calls
//! are sent there. What a node is does not matter to the map.

use std::collections::HashMap;
use std::rc::Rc;

use super::slots::{NODES_MAX, Slots};
use crate::store::settings::Address;

/// Slots, and the nodes that have them.
#[derive(Debug)]
pub struct SlotMap<N> {
    slots: Slots,
    /// Whether some slot had no node when the map was last replaced.
    has_gaps: bool,
    /// The nodes that have slots, in the order of `slots.nodes()`.
    primaries: Vec<Rc<N>>,
    guests: HashMap<Address, Guest<N>>,
}

#[derive(Debug)]
struct Guest<N> {
    node: Rc<N>,
    /// Whether the guest was called since the map was last replaced.
    is_called: bool,
}

impl<N> SlotMap<N> {
    /// Makes a map in which no slot has a node.
    pub fn none() -> Self {
        Self {
            slots: Slots::none(),
            has_gaps: true,
            primaries: Vec::new(),
            guests: HashMap::new(),
        }
    }

    /// Returns the node that has a slot.
    pub fn owner(&self, slot: u16) -> Option<&Rc<N>> {
        self.primaries.get(usize::from(self.slots.index(slot)?))
    }

    /// Returns the node at an address, which becomes a guest if it is not known; none if there are too many guests.
    pub fn node(&mut self, address: &Address, make: impl FnOnce(&Address) -> N) -> Option<Rc<N>> {
        if let Some(node) = self.primary(address) {
            return Some(Rc::clone(node));
        }
        if let Some(guest) = self.guests.get_mut(address) {
            guest.is_called = true;
            return Some(Rc::clone(&guest.node));
        }
        if self.guests.len() >= NODES_MAX {
            return None;
        }
        let node = Rc::new(make(address));
        let guest = Guest {
            node: Rc::clone(&node),
            is_called: true,
        };
        self.guests.insert(address.clone(), guest);
        Some(node)
    }

    /// Gives one slot to the node at an address, which is made if it is not known. Returns whether there
    /// was room for the node.
    pub fn learn(
        &mut self,
        slot: u16,
        address: &Address,
        make: impl FnOnce(&Address) -> N,
    ) -> bool {
        if self.slots.assign(slot, slot, address.clone()).is_err() {
            return false;
        }
        if self.slots.nodes().len() > self.primaries.len() {
            let guest = self.guests.remove(address);
            let node = guest.map_or_else(|| Rc::new(make(address)), |guest| guest.node);
            self.primaries.push(node);
        }
        true
    }

    /// Replaces the slots. Primaries that no longer have any, and guests that were not called meanwhile, are dropped.
    pub fn adopt(&mut self, mut slots: Slots, make: impl Fn(&Address) -> N) {
        self.has_gaps = slots.has_gaps();
        if self.has_gaps {
            slots.keep_owners(&self.slots);
        }
        let primaries = (slots.nodes().iter())
            .map(|address| match self.primary(address) {
                Some(node) => Rc::clone(node),
                None => match self.guests.remove(address) {
                    Some(guest) => guest.node,
                    None => Rc::new(make(address)),
                },
            })
            .collect();
        self.guests
            .retain(|_, guest| std::mem::take(&mut guest.is_called));
        self.primaries = primaries;
        self.slots = slots;
    }

    /// Says whether some slot had no node when the map was last replaced.
    pub fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// Yields all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Rc<N>> {
        let guests = self.guests.values().map(|guest| &guest.node);
        self.primaries.iter().chain(guests)
    }

    /// Returns the nodes that have slots.
    pub fn primaries(&self) -> &[Rc<N>] {
        &self.primaries
    }

    fn primary(&self, address: &Address) -> Option<&Rc<N>> {
        self.primaries.get(usize::from(self.slots.place(address)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> Address {
        let host = "127.0.0.1".into();
        Address { host, port }
    }

    fn slots(of: &[(u16, u16, u16)]) -> Slots {
        let mut slots = Slots::none();
        for (first, last, port) in of {
            slots.assign(*first, *last, at(*port)).expect("room");
        }
        slots
    }

    /// Makes a node, which is only its port.
    fn make(address: &Address) -> u16 {
        address.port
    }

    fn map(of: &[(u16, u16, u16)]) -> SlotMap<u16> {
        let mut map = SlotMap::none();
        map.adopt(slots(of), make);
        map
    }

    #[test]
    fn nobody_has_anything_before_the_first_map() {
        assert_eq!(SlotMap::<u16>::none().owner(0), None);
    }

    #[test]
    fn node_that_stays_is_the_same_and_one_that_leaves_is_dropped() {
        let mut map = map(&[(0, 99, 1), (100, 16_383, 2)]);
        let stays = Rc::clone(map.owner(100).expect("an owner"));
        let leaves = Rc::downgrade(map.owner(0).expect("an owner"));
        map.adopt(slots(&[(0, 99, 3), (100, 16_383, 2)]), make);
        assert!(Rc::ptr_eq(&stays, map.owner(16_383).expect("an owner")));
        assert_eq!(map.owner(0).map(|node| **node), Some(3));
        assert!(leaves.upgrade().is_none());
    }

    #[test]
    fn slot_without_a_node_stays_with_the_one_that_it_had_until_another_has_it() {
        let mut map = map(&[(0, 99, 1), (100, 16_383, 2)]);
        let owners =
            |map: &SlotMap<u16>| [0, 99, 100].map(|slot| map.owner(slot).map(|node| **node));
        for _ in 0..2 {
            map.adopt(slots(&[(0, 50, 3), (100, 16_383, 2)]), make);
            assert_eq!(owners(&map), [3, 1, 2].map(Some));
            assert!(map.has_gaps(), "so another map is asked for soon");
        }
        map.adopt(slots(&[(0, 16_383, 2)]), make);
        assert_eq!(owners(&map), [2; 3].map(Some));
        assert!(!map.has_gaps());
        assert_eq!(map.primaries().len(), 1);
    }

    #[test]
    fn redirected_slot_goes_to_its_new_owner_at_once_and_alone() {
        let mut map = map(&[(0, 99, 1), (100, 16_383, 2)]);
        assert!(map.learn(7, &at(2), make));
        assert!(map.learn(8, &at(4), make));
        let owners = [6, 7, 8, 9].map(|slot| map.owner(slot).map(|node| **node));
        assert_eq!(owners, [1, 2, 4, 1].map(Some));
        assert_eq!(map.primaries().len(), 3);
    }

    #[test]
    fn guest_stays_while_it_is_called_and_becomes_a_primary() {
        let mut map = map(&[(0, 16_383, 1)]);
        let guest = map.node(&at(5), make).expect("room");
        map.adopt(slots(&[(0, 16_383, 1)]), make);
        let again = map.node(&at(5), make).expect("room");
        assert!(Rc::ptr_eq(&guest, &again));
        map.adopt(slots(&[(0, 16_382, 1), (16_383, 16_383, 5)]), make);
        assert!(Rc::ptr_eq(&guest, map.owner(16_383).expect("an owner")));
    }

    #[test]
    fn guest_that_is_not_called_any_more_is_dropped() {
        let mut map = map(&[(0, 16_383, 1)]);
        let guest = Rc::downgrade(&map.node(&at(5), make).expect("room"));
        map.adopt(slots(&[(0, 16_383, 1)]), make);
        assert!(guest.upgrade().is_some(), "it was called meanwhile");
        map.adopt(slots(&[(0, 16_383, 1)]), make);
        assert!(guest.upgrade().is_none());
    }

    #[test]
    fn guests_are_bounded() {
        let mut map = map(&[(0, 16_383, 1)]);
        let ports = 2..2 + u16::try_from(NODES_MAX).expect("a port");
        assert!(
            ports
                .clone()
                .all(|port| map.node(&at(port), make).is_some())
        );
        assert_eq!(map.node(&at(ports.end), make), None);
        assert!(map.node(&at(1), make).is_some(), "a primary is no guest");
    }
}
