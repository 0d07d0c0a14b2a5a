//! Slow clients, many clients, large heads, and bytes aimed at logs and at the admin port.
//!
//! Behaviour that depends on the machine's speed is measured by `scripts/drill`; these tests check
//! for errors and bounds.

mod admin;
mod crowds;
mod descriptors;
mod errors;
mod heads;
mod logs;
mod slow;
