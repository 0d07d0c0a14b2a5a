//! Who a request comes from and whose quota it spends.
//!
//! [`host()`] and [`client_address`] read what a request says of itself, and believe only what may
//! be believed; [`partition_id`] digests a policy's partition of it into the name that the store counts
//! under, and [`shown()`] spells the same for people without giving a secret away.

mod address;
mod forwarded;
mod host;
mod partition;
mod shown;

pub use self::address::{client_address, is_trusted};
pub(super) use self::host::canonical_host;
pub use self::host::{BadHost, Host, host};
pub use self::partition::{
    Facts, Identified, LatestPartition, join_lines, join_routed_lines, partition_id,
};
pub use self::shown::{Shown, shown, shown_address};
