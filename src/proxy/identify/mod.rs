//! Who a request comes from and whose quota it spends.
//!
//! [`host()`] and [`client_address`] read what a request says of itself, and believe only what may
//! be believed.

mod address;
mod forwarded;
mod host;

pub use self::address::client_address;
pub(super) use self::host::canonical_host;
pub use self::host::{BadHost, Host, host};
