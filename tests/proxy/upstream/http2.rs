//! Origins over HTTP/2: what they see, what of it is shared, and how it fails.

mod bodies;
mod ending;
mod frames;
mod heads;
mod origin;
mod resets;
mod sharing;
