//! Origins over HTTP/2: what they see, which connections requests share, and how origins fail.

mod bodies;
mod ending;
mod frames;
mod heads;
mod origin;
mod resets;
mod sharing;
