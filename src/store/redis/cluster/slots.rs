//! Computes which slot a key is in, and reads which primary has which slots.
//!
//! A slot is the CRC-16 of a key's hash tag, modulo 16384. [`Slots::read`] reads the reply to
//! `CLUSTER SLOTS`, which every Redis since version 3 knows, and Valkey; [`redirected`] reads `MOVED`
//! and `ASK`. Nothing here speaks to a server.

use std::collections::HashMap;

use redis::Value;

use crate::store::redis::reply::{entry, list, text};
use crate::store::settings::Address;

/// Number of slots of a Cluster.
pub const SLOTS: u16 = 16_384;
/// Most primaries of a map: the most nodes that Redis recommends.
pub const NODES_MAX: usize = 1_000;

/// Which primary has which slots, as one node of the Cluster sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Slots {
    /// For each slot, the index of its node in `nodes`, or [`NOBODY`].
    owners: Box<[u16]>,
    nodes: Vec<Address>,
    /// The index of each node in `nodes`.
    places: HashMap<Address, u16>,
}

/// Why a map could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableSlots {
    /// The reply is not one to `CLUSTER SLOTS`.
    #[error("the reply is not a list of slots")]
    Shape,
    /// No slot has a node.
    #[error("no slot has a node")]
    Empty,
    /// There are more than [`NODES_MAX`] nodes.
    #[error("more than {NODES_MAX} nodes")]
    TooMany,
}

/// Returns the slot of a key.
///
/// Only the text between the first `{` and the first `}` after it counts, unless that is empty.
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

/// Where a `MOVED` or an `ASK` leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirected {
    /// To the node at this address.
    To(Address),
    /// To a node on this port that has announced no name, and whose address is not given.
    OnPort(u16),
}

/// Reads where a `MOVED` or an `ASK` leads; none if it cannot be read. `asked` is the node that answered; its
/// host is taken if none is named.
pub fn redirected(endpoint: &str, asked: &Address) -> Option<Redirected> {
    // An IPv6 address is written without brackets here.
    let (host, port) = endpoint.trim_end().rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = match host {
        UNKNOWN_HOST => return Some(Redirected::OnPort(port)),
        "" => asked.host.clone(),
        host => host.into(),
    };
    Some(Redirected::To(Address { host, port }))
}

impl Slots {
    /// Makes a map in which no slot has a node.
    pub fn none() -> Self {
        Self {
            owners: vec![NOBODY; usize::from(SLOTS)].into_boxed_slice(),
            nodes: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Reads the reply to `CLUSTER SLOTS`. `asked` is the node that answered; its host is taken for nodes
    /// that are named without one.
    ///
    /// Slots whose node has neither a known name nor an address get no node.
    pub fn read(reply: &Value, asked: &Address) -> Result<Self, UnreadableSlots> {
        let mut slots = Self::none();
        for range in list(reply).ok_or(UnreadableSlots::Shape)? {
            let [first, last, primary, ..] = list(range).ok_or(UnreadableSlots::Shape)? else {
                return Err(UnreadableSlots::Shape);
            };
            let (first, last) = (slot(first), slot(last));
            let (Some(first), Some(last)) = (first, last) else {
                return Err(UnreadableSlots::Shape);
            };
            if let Some(node) = node(primary, asked)? {
                slots.assign(first, last, node)?;
            }
        }
        if slots.nodes.is_empty() {
            return Err(UnreadableSlots::Empty);
        }
        Ok(slots)
    }

    /// Returns the index in [`nodes`](Self::nodes) of the node that has a slot.
    pub fn index(&self, slot: u16) -> Option<u16> {
        let owner = self.owners[usize::from(slot % SLOTS)];
        (owner != NOBODY).then_some(owner)
    }

    /// Returns the index in [`nodes`](Self::nodes) of a node.
    pub fn place(&self, node: &Address) -> Option<u16> {
        self.places.get(node).copied()
    }

    /// Returns the nodes, each once.
    pub fn nodes(&self) -> &[Address] {
        &self.nodes
    }

    /// Says whether a slot has no node.
    pub fn has_gaps(&self) -> bool {
        self.owners.contains(&NOBODY)
    }

    /// Gives each slot that has no node to the node that had it in `before`, while there is room for nodes.
    pub fn keep_owners(&mut self, before: &Self) {
        for slot in 0..SLOTS {
            let (None, Some(place)) = (self.index(slot), before.index(slot)) else {
                continue;
            };
            let owner = before.nodes[usize::from(place)].clone();
            if self.assign(slot, slot, owner).is_err() {
                return;
            }
        }
    }

    /// Gives the slots from `first` to `last` to `node`.
    pub fn assign(&mut self, first: u16, last: u16, node: Address) -> Result<(), UnreadableSlots> {
        let range = usize::from(first)..=usize::from(last);
        let owners = self.owners.get_mut(range).ok_or(UnreadableSlots::Shape)?;
        let place = if let Some(place) = self.places.get(&node) {
            *place
        } else {
            let next = (self.nodes.len() < NODES_MAX).then_some(self.nodes.len());
            let place = next.and_then(|next| u16::try_from(next).ok());
            let place = place.ok_or(UnreadableSlots::TooMany)?;
            self.places.insert(node.clone(), place);
            self.nodes.push(node);
            place
        };
        owners.fill(place);
        Ok(())
    }
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.nodes).finish()
    }
}

/// Returns the part of a key that decides its slot.
fn hash_tag(key: &[u8]) -> &[u8] {
    let inside = memchr::memchr(b'{', key).map(|open| &key[open + 1..]);
    let length = inside.and_then(|inside| memchr::memchr(b'}', inside));
    match (inside, length) {
        (Some(inside), Some(length)) if length > 0 => &inside[..length],
        _ => key,
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, starts at 0, no reflection (Redis Cluster specification,
/// appendix A).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let [high, _] = crc.to_be_bytes();
        (crc << 8) ^ CRC16[usize::from(high ^ byte)]
    })
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index: u16 = 0;
    while index < 256 {
        let mut crc = index << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};

/// Reads the address of a range's primary from its endpoint, its port, and the other names that may follow its id.
fn node(primary: &Value, asked: &Address) -> Result<Option<Address>, UnreadableSlots> {
    let [endpoint, port, rest @ ..] = list(primary).ok_or(UnreadableSlots::Shape)? else {
        return Err(UnreadableSlots::Shape);
    };
    let port = match port {
        Value::Int(port) => u16::try_from(*port).ok().filter(|port| *port > 0),
        _ => None,
    };
    let port = port.ok_or(UnreadableSlots::Shape)?;
    let host = match (endpoint, text(endpoint)) {
        // A node that has met no other gives an empty address, because it does not know its own.
        (_, Some(UNKNOWN_HOST)) => match rest.get(1).and_then(|names| entry(names, "ip")) {
            Some("") => Some(&*asked.host),
            ip => ip,
        },
        (Value::Nil, _) | (_, Some("")) => Some(&*asked.host),
        (_, Some(host)) => Some(host),
        (_, None) => return Err(UnreadableSlots::Shape),
    };
    Ok(host.map(|host| Address {
        host: host.into(),
        port,
    }))
}

fn slot(value: &Value) -> Option<u16> {
    match value {
        Value::Int(slot) => u16::try_from(*slot).ok().filter(|slot| *slot < SLOTS),
        _ => None,
    }
}

/// In place of an index, says that a slot has no node.
const NOBODY: u16 = u16::MAX;
/// The host that a node gives for one that has announced no name (`cluster-preferred-endpoint-type hostname`).
const UNKNOWN_HOST: &str = "?";

#[cfg(test)]
mod tests;
