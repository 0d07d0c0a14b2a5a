//! Histories of requests, and judgements on them: clients see only what the limits' laws allow.

mod law;
mod limiter;
mod nemesis;
mod recording;

mod fleet;
mod haunted;
mod judging;
mod stores;
