//! The values of a request that are looked up among patterns.

use std::cell::OnceCell;

use super::address::{ADDRESS_LEN_MAX, address_bytes, address_len};
use super::named::ItemValue;
use crate::request::partition::{Value, digest};

/// The value of a client for one item of a partition.
pub(super) struct OverrideKey<'c> {
    pub(super) alternative: u32,
    value: &'c Value<'c>,
    /// The bytes of an address: its family, then its octets.
    address: [u8; ADDRESS_LEN_MAX],
    /// The digest that is looked up in place of the value, if patterns know values only as digests.
    digest: Option<[u8; 16]>,
    /// The hash of the value (or digest) in the tree that is searched, once a node has needed it.
    pub(super) hash: OnceCell<u64>,
}

impl<'c> OverrideKey<'c> {
    /// Prepares a value for the lookup; if there is a `key`, patterns know values as digests under it.
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

    /// Returns how many bits of the value count: of an address, those of the client's network.
    pub(super) fn bits(&self) -> usize {
        match self.value {
            Value::Text(text) => 8 * text.len(),
            Value::Address(_, prefix) => 8 + usize::from(*prefix),
        }
    }

    /// Returns the bytes or the digest to look up among values; none for bytes not all of whose bits count.
    pub(super) fn as_value(&self) -> Option<&[u8]> {
        match &self.digest {
            Some(digest) => Some(digest),
            None => (self.bits() == 8 * self.bytes().len()).then(|| self.bytes()),
        }
    }
}
