//! What identifies this build of the program.

/// The version in `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that it was built from, if `scripts/release` built it.
pub const COMMIT: Option<&str> = option_env!("TOLLGATE_COMMIT");

/// How the build was optimised.
pub const PROFILE: &str = match option_env!("TOLLGATE_PROFILE") {
    Some(profile) => profile,
    None if cfg!(debug_assertions) => "debug",
    None => "release",
};
