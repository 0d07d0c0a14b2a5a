//! Slow clients, many clients, large heads, bytes meant for logs and for the admin port.
//!
//! What depends on the machine's speed is measured by `scripts/drill`; these tests assert errors
//! and bounds.

mod admin;
mod crowds;
mod descriptors;
mod errors;
mod heads;
mod logs;
mod slow;

use std::net::SocketAddr;

use crate::support::{Running, get};

/// Returns the sum of a metric's samples, or of those with the labels that the name ends with.
#[track_caller]
fn metric(admin: SocketAddr, name: &str) -> u64 {
    let text = get(admin, "/metrics", "").text();
    let samples = text.lines().filter(|line| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    });
    let values = samples.map(|line| {
        let value = line
            .rsplit(' ')
            .next()
            .and_then(|value| value.parse::<u64>().ok());
        value.unwrap_or_else(|| panic!("not a sample: {line:?}"))
    });
    values.sum()
}

#[track_caller]
fn admin_of(running: &Running) -> SocketAddr {
    let admin = running.gateway.admin_address();
    admin.expect("it is in the file")
}
