//! `tollgate upgrade`: has the gateway start its binary again and hand over to it.

use std::path::Path;
use std::process::ExitCode;

use http::StatusCode;
use serde_json::Value;

use super::client::{AdminAnswer, AdminClient};
use super::{EXIT_CONFIG, write_out};

/// Has the gateway that runs with the file at `path` hand over to a new process. Exits with 0 once that serves, with 78
/// if the file has mistakes, or with 1 if the running process goes on for another reason.
pub fn upgrade(path: &Path) -> ExitCode {
    match AdminClient::change(path, "/api/upgrade") {
        Ok(AdminAnswer {
            status: StatusCode::OK,
            content,
        }) => {
            write_out(&(taken_over(&content) + "\n"));
            ExitCode::SUCCESS
        }
        Ok(AdminAnswer { content, .. }) => {
            let report = content["report"].as_str();
            eprint!("{}", report.unwrap_or_default());
            let detail = content["detail"].as_str().unwrap_or(UNKNOWN);
            eprintln!("tollgate: not upgraded: {detail}");
            report.map_or(ExitCode::FAILURE, |_| ExitCode::from(EXIT_CONFIG))
        }
        Err(error) => error.report_or(SIGNAL),
    }
}

fn taken_over(content: &Value) -> String {
    let version = |of: &Value| of["version"].as_str().unwrap_or("?").to_owned();
    let before = &content["before"];
    format!(
        "tollgate {} (process {}) has taken over; {} (process {}) ends once its requests have",
        version(content),
        content["process"],
        version(before),
        before["process"],
    )
}

const SIGNAL: &str = "to upgrade, send SIGUSR2 instead: `kill -USR2 PID`, or `systemctl kill -s USR2 --kill-whom=main tollgate`";
const UNKNOWN: &str = "the gateway did not say why";
