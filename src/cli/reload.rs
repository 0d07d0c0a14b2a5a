//! `tollgate reload`: has the gateway read its file again, and prints the result.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use http::StatusCode;
use serde_json::Value;

use super::client::{AdminAnswer, AdminClient};
use super::keys::DEGRADED;
use super::{EXIT_CONFIG, write_out};

/// Has the gateway that runs with the file at `path` read it again. Exits with 0, with 78 if the file has mistakes,
/// or with 1 if the gateway cannot be asked.
pub fn reload(path: &Path) -> ExitCode {
    match AdminClient::change(path, "/api/reload") {
        Ok(AdminAnswer {
            status: StatusCode::OK,
            content,
        }) => {
            let differences = Differences::of(&content);
            let restart = "needs a restart, and keeps its old value until then";
            write_out(&differences.said("reloaded, which changed", restart));
            ExitCode::SUCCESS
        }
        Ok(AdminAnswer { content, .. }) => {
            print_refused(&content);
            eprintln!("tollgate: not reloaded: the old configuration stays");
            ExitCode::from(EXIT_CONFIG)
        }
        Err(error) => error.report_or(SIGNAL),
    }
}

/// Prints why the gateway cannot put its file in force.
pub(super) fn print_refused(content: &Value) {
    match content["report"].as_str() {
        Some(report) => eprint!("{report}"),
        None => eprintln!(
            "tollgate: {}",
            content["detail"].as_str().unwrap_or(UNKNOWN)
        ),
    }
}

/// What a reload has changed, or would change.
pub(super) struct Differences {
    /// Changes that apply at once, one line each.
    pub(super) applied: Vec<String>,
    /// Changes that need a restart, one line each.
    pub(super) needs_restart: Vec<String>,
    /// Settings that are valid, but probably not what was meant.
    pub(super) warnings: Vec<String>,
    /// How many known clients would be refused; empty unless a gateway was asked for a preview.
    pub(super) known_clients: Vec<String>,
}

impl Differences {
    /// Reads the differences from an answer of the admin port.
    pub(super) fn of(content: &Value) -> Self {
        let lines = |key: &str| {
            let lines = content[key].as_array().into_iter().flatten();
            lines.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            applied: lines("changes"),
            needs_restart: lines("needs_restart"),
            warnings: lines("warnings"),
            known_clients: known_clients(&content["known_clients"]),
        }
    }

    /// Formats the differences, each list under its title.
    pub(super) fn said(&self, applied: &str, restart: &str) -> String {
        let mut out = String::new();
        if self.applied.is_empty() && self.needs_restart.is_empty() {
            let _ = writeln!(out, "{applied} nothing");
        }
        for (title, lines) in [
            (applied, &self.applied),
            (restart, &self.needs_restart),
            ("warnings", &self.warnings),
        ] {
            if !lines.is_empty() {
                let _ = writeln!(out, "{title}");
            }
            for line in lines {
                let _ = writeln!(out, "  {line}");
            }
        }
        for line in &self.known_clients {
            let _ = writeln!(out, "{line}");
        }
        out
    }
}

/// Says how many of the clients that a gateway knows would be refused, in total and by each policy that refuses some.
fn known_clients(judged: &Value) -> Vec<String> {
    let line = |of: &Value, what: &str| {
        let count = |key: &str| of[key].as_u64().unwrap_or_default();
        let (known, refused, already) =
            (count("known"), count("refused"), count("refused_already"));
        let line = format!(
            "{refused} of {known}{what} would be refused now ({already} with the running configuration)"
        );
        (line, refused + already > 0)
    };
    if judged.is_null() {
        return Vec::new();
    }
    let (mut total, _) = line(judged, " known clients");
    if judged["partial"] == true {
        total.push_str("; there was no time to judge the others");
    }
    let degraded = (judged["degraded"] == true).then(|| format!("  {DEGRADED}"));
    let policies = judged["policies"].as_array().into_iter().flatten();
    let policies = policies.filter_map(|policy| {
        let (line, is_refusing) = line(policy, "");
        let name = policy["name"].as_str()?;
        is_refusing.then(|| format!("  {name}: {line}"))
    });
    [total]
        .into_iter()
        .chain(degraded)
        .chain(policies)
        .collect()
}

const SIGNAL: &str =
    "to reload, send SIGHUP instead: `kill -HUP PID`, or `systemctl reload tollgate`";
const UNKNOWN: &str = "the gateway did not reload, and did not say why";
