//! `tollgate trace`: what the next requests go through at the gateway that runs with the file, step by step.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use super::client::{AdminClient, ClientError};
use super::trace_arguments::TraceArguments;

/// Shows the next requests, as they end. Exits with 0, or like other commands if the gateway cannot be asked.
pub fn trace(path: &Path, arguments: &TraceArguments) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let shown = runtime.map(|runtime| runtime.block_on(follow(path, arguments)));
    match shown {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => error.report(),
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn follow(path: &Path, arguments: &TraceArguments) -> Result<(), ClientError> {
    let client = AdminClient::of(path)?;
    let mut events = client.follow(&arguments.query()).await?;
    eprintln!("tollgate: waiting for requests");
    loop {
        let event = events.next().await?;
        let text = match &*event.name {
            "trace" => shown(&event.data),
            "missed" => format!("({} more came too fast to be shown)\n", event.data),
            "end" => {
                if event.data["reason"] == "time" {
                    eprintln!("tollgate: a trace ends after ten minutes");
                }
                return Ok(());
            }
            _ => continue,
        };
        // A reader that has seen enough may close the pipe.
        if io::stdout().write_all(text.as_bytes()).is_err() {
            return Ok(());
        }
    }
}

/// Writes a request: a line, and then its steps.
fn shown(trace: &Value) -> String {
    let text = |name: &str| trace[name].as_str().unwrap_or("none");
    let status = match &trace["status"] {
        Value::Null => "no answer".to_owned(),
        status => status.to_string(),
    };
    let mut shown = format!(
        "{} {}{} → {status} in {} µs, client {}, route {}, request {}\n",
        text("method"),
        text("host"),
        text("path"),
        trace["took_us"],
        text("client"),
        text("route"),
        text("id"),
    );
    for step in trace["steps"].as_array().into_iter().flatten() {
        let at = step["at_us"].as_u64().unwrap_or_default();
        let name = step["step"].as_str().unwrap_or_default();
        let mut lines = step["text"].as_str().unwrap_or_default().lines();
        let first = lines.next().unwrap_or_default();
        writeln!(shown, "{at:>7} µs  {name:<10}{first}").expect("memory takes every byte");
        for line in lines {
            writeln!(shown, "{:22}{line}", "").expect("memory takes every byte");
        }
    }
    shown.push('\n');
    // Nothing from a client may move the terminal's cursor, or change the direction of the text that follows.
    let is_plain = |c: char| c.is_ascii_graphic() || matches!(c, ' ' | '\n' | 'µ' | '→' | '…');
    let safe = shown.chars().map(|c| if is_plain(c) { c } else { '?' });
    safe.collect()
}
