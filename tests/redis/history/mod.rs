//! Histories of requests, judged: what clients saw is what the limits' laws allow.

mod law;
mod limiter;
mod recording;

mod judging;
mod stores;
