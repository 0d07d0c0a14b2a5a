//! Histories of requests, judged: what clients saw is what the limits' laws allow.

mod law;
mod limiter;
mod nemesis;
mod recording;

mod fleet;
mod haunted;
mod judging;
mod stores;
