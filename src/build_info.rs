//! Which build of the program this is.

/// Its version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, where `scripts/release` built it.
pub const COMMIT: Option<&str> = option_env!("TOLLGATE_COMMIT");

/// How it was optimised.
pub const PROFILE: &str = match option_env!("TOLLGATE_PROFILE") {
    Some(profile) => profile,
    None if cfg!(debug_assertions) => "debug",
    None => "release",
};
