//! The bytes by which patterns compare addresses.

use std::net::IpAddr;

/// Returns the bytes by which patterns compare an address (its family, then its octets), and how many there are.
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

/// The byte before the octets of an address: its family.
const V4: u8 = 4;
pub(super) const V6: u8 = 6;
pub(super) const ADDRESS_LEN_MAX: usize = 17;
