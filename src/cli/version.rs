//! `tollgate version`: what is installed, and what runs.

use std::env::consts::{ARCH, OS};
use std::path::Path;

use http::Method;

use super::client::{AdminClient, ClientError};
use crate::build_info::{COMMIT, PROFILE, VERSION};

/// Prints which build this is, and which one runs with the file at `path`.
pub fn version(path: &Path) {
    let commit = COMMIT.unwrap_or(NOT_RECORDED);
    println!("tollgate {VERSION}\ncommit   {commit}\nprofile  {PROFILE}\nsystem   {OS} {ARCH}");
    match running(path) {
        Ok(running) => {
            println!("running  {running}");
            if running != said(VERSION, commit, PROFILE) {
                println!(
                    "         that is another build: `tollgate upgrade` starts the installed one"
                );
            }
        }
        Err(error) => println!("running  unknown: {error}"),
    }
}

/// Asks the gateway that runs with the file.
fn running(path: &Path) -> Result<String, ClientError> {
    let content = AdminClient::of(path)?
        .ask(Method::GET, "/api/version", None)?
        .content;
    let field = |name: &str| content[name].as_str();
    Ok(said(
        field("version").unwrap_or("?"),
        field("commit").unwrap_or(NOT_RECORDED),
        field("profile").unwrap_or("?"),
    ))
}

fn said(version: &str, commit: &str, profile: &str) -> String {
    format!("{version}, commit {commit}, {profile}")
}

const NOT_RECORDED: &str = "not recorded";
