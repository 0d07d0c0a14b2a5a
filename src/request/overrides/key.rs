//! The values of a request that are looked up among patterns.

use std::cell::OnceCell;

use super::address::{ADDRESS_LEN_MAX, address_bytes, address_len};
use crate::request::partition::Value;

/// The value of a request for one item of a partition.
pub(super) struct OverrideKey<'r> {
    pub(super) alternative: u32,
    value: Value<'r>,
    /// The bytes of an address: its family, and its octets.
    address: [u8; ADDRESS_LEN_MAX],
    /// The hash of the bytes in the tree of this lookup, once a node needs it.
    pub(super) hash: OnceCell<u64>,
}

impl<'r> OverrideKey<'r> {
    pub(super) fn new(alternative: u32, value: Value<'r>) -> Self {
        let address = match value {
            Value::Address(address, _) => address_bytes(address).0,
            Value::Text(_) => [0; ADDRESS_LEN_MAX],
        };
        Self {
            alternative,
            value,
            address,
            hash: OnceCell::new(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.value {
            Value::Text(text) => text,
            Value::Address(address, _) => &self.address[..address_len(*address)],
        }
    }

    /// Returns how many bits count: of an address, those of the client's network.
    pub(super) fn bits(&self) -> usize {
        match &self.value {
            Value::Text(text) => 8 * text.len(),
            Value::Address(_, prefix) => 8 + usize::from(*prefix),
        }
    }

    /// Whether all of its bits count.
    pub(super) fn is_whole(&self) -> bool {
        self.bits() == 8 * self.bytes().len()
    }
}
