//! `tollgate check --against`: what a reload would change, compared with another file or with what runs.

use std::path::Path;
use std::process::ExitCode;

use http::{Method, StatusCode};

use super::check::Strictness;
use super::client::{AdminAnswer, AdminClient, ClientError};
use super::file::load;
use super::reload::{Differences, print_refused};
use super::{EXIT_CONFIG, write_out};
use crate::config::MissingValues;
use crate::config::changes::changes;

/// Prints what a reload of the file at `path` would change, compared with another file or with what runs. Exits with 0,
/// with 78 if a file has mistakes (or warnings, if the check is strict), or with 1 if the gateway cannot be asked.
pub fn check_against(
    path: &Path,
    against: &Path,
    strictness: Strictness,
    missing: MissingValues,
) -> ExitCode {
    let found = if against == Path::new(RUNNING) {
        with_running(path)
    } else {
        with_file(path, against, missing)
    };
    match found {
        Ok((name, differences)) => {
            let said = differences.said(
                &format!("{name}a reload would change"),
                "needs a restart, and would keep its old value until then",
            );
            write_out(&said);
            strictness.status(&differences.warnings)
        }
        Err(status) => status,
    }
}

/// Compares two files.
fn with_file(
    path: &Path,
    other: &Path,
    missing: MissingValues,
) -> Result<(String, Differences), ExitCode> {
    let (new, old) = (load(path, missing)?, load(other, missing)?);
    let changes = changes(&old.file, &new.file);
    let differences = Differences {
        applied: changes.applied,
        needs_restart: changes.needs_restart,
        warnings: new.warnings,
        known_clients: Vec::new(),
    };
    Ok((format!("against {}, ", other.display()), differences))
}

/// Has the gateway compare the file that it was started with.
fn with_running(path: &Path) -> Result<(String, Differences), ExitCode> {
    let asked = AdminClient::of(path).and_then(|client| {
        let overview = client.ask(Method::GET, "/api/overview", None)?;
        same_file(path, overview.content["configuration"]["file"].as_str())?;
        client.ask(Method::GET, "/api/reload/preview", None)
    });
    match asked {
        Ok(AdminAnswer {
            status: StatusCode::OK,
            content,
        }) => Ok((String::new(), Differences::of(&content))),
        Ok(AdminAnswer { content, .. }) => {
            print_refused(&content);
            Err(ExitCode::from(EXIT_CONFIG))
        }
        Err(error) => Err(error.report()),
    }
}

/// Checks that the gateway was started with the file at `path`, because a reload reads no other.
fn same_file(path: &Path, running: Option<&str>) -> Result<(), ClientError> {
    let running = running.unwrap_or_default();
    let is_same = std::fs::canonicalize(path)
        .is_ok_and(|path| std::fs::canonicalize(running).is_ok_and(|running| running == path));
    if is_same {
        return Ok(());
    }
    Err(ClientError::OtherFile {
        running: running.to_owned(),
    })
}

/// Name of the configuration in force on the command line; a file of this name is `./running`.
const RUNNING: &str = "running";
