//! `tollgate reload`: has the gateway read its file again, and says what came of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use http::{Method, StatusCode};
use serde_json::Value;

use super::EXIT_CONFIG;
use super::client::{AdminAnswer, AdminClient, ClientError};

/// Has the gateway that runs with the file at `path` read it again. Exits with 0, with 78 if the file has mistakes,
/// or with 1 if the gateway cannot be asked.
pub fn reload(path: &Path) -> ExitCode {
    let answer = AdminClient::of(path).and_then(|client| {
        if client.has_token() {
            client.ask(Method::POST, "/api/reload", None)
        } else {
            Err(ClientError::Refused(NO_TOKEN.to_owned()))
        }
    });
    match answer {
        Ok(AdminAnswer {
            status: StatusCode::OK,
            content,
        }) => {
            // A reader that has seen enough may close the pipe.
            let _ = std::io::stdout().write_all(applied(&content).as_bytes());
            ExitCode::SUCCESS
        }
        Ok(AdminAnswer { content, .. }) => {
            match content["report"].as_str() {
                Some(report) => eprint!("{report}"),
                None => eprintln!(
                    "tollgate: {}",
                    content["detail"].as_str().unwrap_or(UNKNOWN)
                ),
            }
            eprintln!("tollgate: not reloaded: the old configuration stays");
            ExitCode::from(EXIT_CONFIG)
        }
        Err(error) => {
            let status = error.report();
            if matches!(error, ClientError::Off | ClientError::Refused(_)) {
                eprintln!("tollgate: {SIGNAL}");
            }
            status
        }
    }
}

/// Says what a reload has changed.
fn applied(content: &Value) -> String {
    let mut out = String::new();
    let mut add = |title: &str, key: &str| {
        let lines = content[key].as_array();
        let lines = lines.into_iter().flatten().filter_map(Value::as_str);
        for (index, line) in lines.enumerate() {
            if index == 0 {
                let _ = writeln!(out, "{title}");
            }
            let _ = writeln!(out, "  {line}");
        }
    };
    add("reloaded", "changes");
    add(
        "needs a restart, and keeps its old value until then",
        "needs_restart",
    );
    add("warnings", "warnings");
    if out.is_empty() {
        "reloaded: nothing has changed\n".to_owned()
    } else {
        out
    }
}

const NO_TOKEN: &str =
    "the file sets no `[admin] token`, and without one nothing can be changed through its port";
const SIGNAL: &str =
    "to reload, send SIGHUP instead: `kill -HUP PID`, or `systemctl reload tollgate`";
const UNKNOWN: &str = "the gateway did not reload, and did not say why";
