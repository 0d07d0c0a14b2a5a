//! `tollgate version`: what is installed, and what runs.

use std::env::consts::{ARCH, OS};
use std::path::Path;

use http::Method;

use super::client::{AdminClient, ClientError};
use super::write_out;
use crate::build_info::{COMMIT, PROFILE, VERSION};

/// Prints which build this is, and which one runs with the file at `path`.
pub fn version(path: &Path) {
    let commit = COMMIT.unwrap_or(NOT_RECORDED);
    let running = match running(path) {
        Ok(running) if running == build(VERSION, commit, PROFILE) => running,
        Ok(running) => format!("{running}: `tollgate upgrade` starts the installed build instead"),
        Err(error) => format!("unknown: {error}"),
    };
    write_out(&format!(
        "tollgate {VERSION}\ncommit   {commit}\nprofile  {PROFILE}\nsystem   {OS} {ARCH}\nrunning  {running}\n"
    ));
}

/// Asks the gateway that runs with the file which build it is.
fn running(path: &Path) -> Result<String, ClientError> {
    let answer = AdminClient::of(path)?.ask(Method::GET, "/api/version", None)?;
    let field = |name: &str| answer.content[name].as_str().unwrap_or(NOT_RECORDED);
    Ok(build(field("version"), field("commit"), field("profile")))
}

fn build(version: &str, commit: &str, profile: &str) -> String {
    format!("{version}, commit {commit}, {profile}")
}

const NOT_RECORDED: &str = "not recorded";
