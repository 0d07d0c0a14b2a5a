//! What a key that the file leaves out means; `gateway.toml` at the root shows the same values.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub const SHUTDOWN_DELAY: Duration = Duration::ZERO;
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(30);

pub const IPV6_PREFIX: u8 = 64;
pub const MAX_CONNECTIONS: usize = 10_000;
pub const MAX_HELD: usize = 1_000;
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
pub const MAX_HEADER_BYTES: usize = 32 << 10;

pub const ADMIN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8090);

pub const LOG_LEVEL: tracing::Level = tracing::Level::INFO;

/// What every key of a store begins with; the rest of `[store]` is `Settings::default`.
pub const STORE_PREFIX: &str = "tollgate";

pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
pub const UPSTREAM_BODY_TIMEOUT: Duration = Duration::from_mins(1);
pub const RETRIES: u32 = 1;
pub const POOL_MAX_IDLE: usize = 256;
pub const POOL_IDLE_TIMEOUT: Duration = Duration::from_mins(1);

pub const BUCKETS: u32 = 10;
pub const QUEUE: u64 = 0;
pub const COST: u64 = 1;
