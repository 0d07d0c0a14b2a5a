//! What a whole gateway does at its edges: slow readers, hostile heads, reloads, the end.

mod bounds;
mod ending;
mod harness;
mod heads;
