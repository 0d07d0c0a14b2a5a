//! The values of a request that are looked up among patterns.

use std::cell::OnceCell;

use super::address::{ADDRESS_LEN_MAX, address_bytes, address_len};
use super::named::ItemValue;
use crate::request::partition::{Value, digest};

/// The value of a client for one item of a partition.
pub(super) struct OverrideKey<'c> {
    pub(super) alternative: u32,
    value: &'c Value<'c>,
    /// The bytes of an address: its family, and its octets.
    address: [u8; ADDRESS_LEN_MAX],
    /// What is looked up as a value instead of the bytes, where patterns know values only as digests.
    digest: Option<[u8; 16]>,
    /// The hash of what is looked up as a value in the tree of this lookup, once a node needs it.
    pub(super) hash: OnceCell<u64>,
}

impl<'c> OverrideKey<'c> {
    /// Prepares a value for the lookup, where patterns know values as digests under `key` if there is one.
    pub(super) fn new(one: &'c ItemValue<'c>, key: Option<&[u8; 32]>) -> Self {
        let address = match &one.value {
            Value::Address(address, _) => address_bytes(*address).0,
            Value::Text(_) => [0; ADDRESS_LEN_MAX],
        };
        Self {
            alternative: one.alternative,
            value: &one.value,
            address,
            digest: key.map(|key| digest(key, one.part, &one.value).bits().to_be_bytes()),
            hash: OnceCell::new(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self.value {
            Value::Text(text) => text,
            Value::Address(address, _) => &self.address[..address_len(*address)],
        }
    }

    /// Returns how many bits count: of an address, those of the client's network.
    pub(super) fn bits(&self) -> usize {
        match self.value {
            Value::Text(text) => 8 * text.len(),
            Value::Address(_, prefix) => 8 + usize::from(*prefix),
        }
    }

    /// Returns what is looked up as a value; none if not all of its bits count.
    pub(super) fn as_value(&self) -> Option<&[u8]> {
        match &self.digest {
            Some(digest) => Some(digest),
            None => (self.bits() == 8 * self.bytes().len()).then(|| self.bytes()),
        }
    }
}
