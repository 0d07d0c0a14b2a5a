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
