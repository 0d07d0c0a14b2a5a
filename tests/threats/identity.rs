//! Who a client is: forged addresses, rotated prefixes, hostile keys.
