//! What a whole gateway does at its edges: slow readers, hostile heads, reloads, the end.

mod harness;
mod heads;
