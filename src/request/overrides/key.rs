//! The values of a request that are looked up among patterns.

use std::cell::OnceCell;

use super::address::{ADDRESS_LEN_MAX, address_bytes, address_len};
use crate::request::partition::{Part, Value, digest};

/// The value of a request for one item of a partition.
pub(super) struct OverrideKey<'r> {
    pub(super) alternative: u32,
    value: Value<'r>,
    /// The bytes of an address: its family, and its octets.
    address: [u8; ADDRESS_LEN_MAX],
    /// What is looked up as a value instead of the bytes, where patterns know values only as digests.
    digest: Option<[u8; 16]>,
    /// The hash of what is looked up as a value in the tree of this lookup, once a node needs it.
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
            digest: None,
            hash: OnceCell::new(),
        }
    }

    /// As [`new`](Self::new), for patterns that know values as digests of their parts under `key`.
    pub(super) fn digested(
        alternative: u32,
        part: &Part,
        value: Value<'r>,
        key: &[u8; 32],
    ) -> Self {
        let digest = digest(key, part, &value).bits().to_be_bytes();
        Self {
            digest: Some(digest),
            ..Self::new(alternative, value)
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

    /// Returns what is looked up as a value; none if not all of its bits count.
    pub(super) fn as_value(&self) -> Option<&[u8]> {
        match &self.digest {
            Some(digest) => Some(digest),
            None => (self.bits() == 8 * self.bytes().len()).then(|| self.bytes()),
        }
    }
}
