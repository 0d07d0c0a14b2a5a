//! Configuration files: what is accepted, what a bad one's report says, and files of thousands of routes.

#[path = "../support/mod.rs"]
mod support;

mod compile;
mod given;
mod paths;
mod reports;
mod scale;
mod schema;
