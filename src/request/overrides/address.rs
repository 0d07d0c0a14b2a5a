//! Addresses as patterns have them.

use std::net::IpAddr;

/// Returns an address as patterns have it, the family before the octets, and how long that is.
pub(super) fn address_bytes(address: IpAddr) -> ([u8; ADDRESS_LEN_MAX], usize) {
    let mut bytes = [0; ADDRESS_LEN_MAX];
    match address {
        IpAddr::V4(address) => {
            bytes[0] = V4;
            bytes[1..5].copy_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes[0] = V6;
            bytes[1..].copy_from_slice(&address.octets());
        }
    }
    (bytes, address_len(address))
}

pub(super) fn address_len(address: IpAddr) -> usize {
    if address.is_ipv4() {
        5
    } else {
        ADDRESS_LEN_MAX
    }
}

/// What stands before the octets of an address.
const V4: u8 = 4;
pub(super) const V6: u8 = 6;
pub(super) const ADDRESS_LEN_MAX: usize = 17;
