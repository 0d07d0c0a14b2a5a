//! What is wrong with the URL of a store.

use crate::config::value::ValueError;

/// Returns an error that says what is wrong with a URL, and repeats no part of it.
pub(super) fn wrong(problem: &'static str) -> ValueError {
    ValueError::new(problem, STORES).unquoted("this URL")
}

pub(super) const ESCAPES: &str = "in a user or a password write `@` as `%40`, `/` as `%2F`, `?` as `%3F`, `#` as `%23`, `%` as \
     `%25`; or set `password` instead";
pub(super) const STORES: &str = "`memory:`, or a URL such as `redis://127.0.0.1:6379`";
