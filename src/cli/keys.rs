//! `tollgate keys`: what single clients have left, and what an operator orders for them.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::client::{AdminClient, ClientError};
use super::keys_arguments::{ClientName, KeysCommand};
use super::write_out;

/// Has the gateway that runs with the file at `path` carry out a command. Exits with 0, with 78 if the file cannot
/// be read, or with 1 if the command was not carried out for another reason.
pub fn keys(path: &Path, command: &KeysCommand) -> ExitCode {
    let (method, call, content) = request(command);
    let answer = AdminClient::of(path).and_then(|client| {
        if method == Method::POST && call != "/api/keys/get" && !client.has_token() {
            return Err(ClientError::Refused(NO_TOKEN.to_owned()));
        }
        client.ask(method, call, content.as_ref())
    });
    match answer {
        Ok(answer) if answer.status == StatusCode::OK => {
            let text = match command {
                KeysCommand::Get(_) | KeysCommand::Adjust { .. } | KeysCommand::Grant { .. } => {
                    report(&answer.content)
                }
                KeysCommand::List => list(&answer.content),
                KeysCommand::Reset(_) => reset(&answer.content),
                _ => done(&answer.content),
            };
            write_out(&text);
            ExitCode::SUCCESS
        }
        Ok(answer) => {
            eprintln!("tollgate: {}", text(&answer.content, "detail"));
            ExitCode::FAILURE
        }
        Err(error) => error.report(),
    }
}

/// Returns the method, path and content of a command's call.
fn request(command: &KeysCommand) -> (Method, &'static str, Option<Value>) {
    let named = |client: &ClientName| json!({ "policy": client.policy, "value": client.value });
    let (call, content) = match command {
        KeysCommand::List => return (Method::GET, "/api/keys", None),
        KeysCommand::Get(client) => ("/api/keys/get", named(client)),
        KeysCommand::Reset(client) => ("/api/keys/reset", named(client)),
        KeysCommand::Unblock(client) => ("/api/keys/unblock", named(client)),
        KeysCommand::Set {
            client,
            quotas,
            lifetime,
            end,
        } => {
            let mut content = named(client);
            if *end {
                content["end"] = true.into();
            } else {
                content["quota"] = json!(quotas);
            }
            if let Some(lifetime) = lifetime {
                content["for"] = json!(lifetime);
            }
            ("/api/keys/set", content)
        }
        KeysCommand::Adjust { client, units } => {
            let mut content = named(client);
            content["units"] = json!(units);
            ("/api/keys/adjust", content)
        }
        KeysCommand::Grant { client, credits } => {
            let mut content = named(client);
            content["credits"] = json!(credits);
            ("/api/keys/grant", content)
        }
        KeysCommand::Block {
            client,
            lifetime,
            everywhere,
        } => {
            let mut content = named(client);
            content["everywhere"] = json!(everywhere);
            if let Some(lifetime) = lifetime {
                content["for"] = json!(lifetime);
            }
            ("/api/keys/block", content)
        }
    };
    (Method::POST, call, Some(content))
}

/// Formats what a client has left.
fn report(report: &Value) -> String {
    let mut out = format!("{}: {}", text(report, "policy"), text(report, "client"));
    for id in texts(report, "ids") {
        let _ = write!(out, " id:{id}");
    }
    out.push('\n');
    for directive in items(report, "directives") {
        let _ = writeln!(out, "  {}", in_force(directive));
    }
    if let Some(grant) = report["grant"].as_str() {
        let _ = writeln!(out, "  {grant}");
    }
    for quota in items(report, "quotas") {
        what_is_left(quota, &mut out);
    }
    if let Some(seconds) = report["penalty_seconds"].as_u64() {
        let _ = writeln!(
            out,
            "  penalty: everything is refused for another {seconds}s"
        );
    }
    if report["degraded"] == true {
        let _ = writeln!(out, "  {DEGRADED}");
    }
    notes(report, &mut out);
    out
}

/// Formats what a quota has left.
fn what_is_left(quota: &Value, out: &mut String) {
    let number = |key: &str| quota[key].as_u64().unwrap_or_default();
    let candidate = if quota["candidate"] == true {
        " (candidate)"
    } else {
        ""
    };
    let name = text(quota, "quota");
    if quota["limit"].is_null() {
        let _ = match number("debt") {
            0 => writeln!(out, "  {name}: {} left", number("remaining")),
            debt => writeln!(out, "  {name}: {debt} owed"),
        };
        return;
    }
    let _ = write!(
        out,
        "  {name}{candidate}: {} of {} left",
        number("remaining"),
        number("limit")
    );
    match quota["next_seconds"].as_u64() {
        Some(next) => {
            let _ = write!(
                out,
                ", more in {next}s, all in {}s",
                number("reset_seconds")
            );
        }
        None if number("remaining") == number("limit") => out.push_str(", nothing used"),
        // It is not known when units in flight come back.
        None => {}
    }
    for (index, holder) in items(quota, "held_by").enumerate() {
        let (before, gateway) = (
            if index == 0 { "; held: " } else { ", " },
            text(holder, "gateway"),
        );
        let this = if holder["this"] == true {
            " (this one)"
        } else {
            ""
        };
        let units = holder["units"].as_u64().unwrap_or_default();
        let _ = write!(out, "{before}{units} by gateway {gateway}{this}");
    }
    let _ = writeln!(
        out,
        "; a cost of {} is refused now",
        number("remaining") + 1
    );
}

/// Formats the directives in force.
fn list(content: &Value) -> String {
    let mut out = String::new();
    for directive in items(content, "directives") {
        let policy = directive["policy"].as_str().unwrap_or("everywhere");
        let _ = write!(
            out,
            "{policy}: {}: {}",
            text(directive, "client"),
            in_force(directive)
        );
        for id in texts(directive, "ids") {
            let _ = write!(out, " id:{id}");
        }
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("no overrides or blocks are in force\n");
    }
    out
}

fn in_force(directive: &Value) -> String {
    let grant: Vec<&str> = texts(directive, "grant").collect();
    format!(
        "{} until {} (since {})",
        grant.join(" and "),
        text(directive, "until"),
        text(directive, "since")
    )
}

/// Formats what was reset.
fn reset(content: &Value) -> String {
    let mut out = done(content);
    let windows = items(&content["before"], "quotas").filter(|quota| !quota["limit"].is_null());
    for quota in windows {
        let number = |key: &str| quota[key].as_u64().unwrap_or_default();
        let used = number("limit").saturating_sub(number("remaining"));
        let _ = writeln!(
            out,
            "  cleared {}: {used} of {} used",
            text(quota, "quota"),
            number("limit")
        );
    }
    if let Some(seconds) = content["before"]["penalty_seconds"].as_u64() {
        let _ = writeln!(out, "  ended a penalty of another {seconds}s");
    }
    out
}

/// Formats what was done.
fn done(content: &Value) -> String {
    let policies: Vec<&str> = texts(content, "policies").collect();
    let mut out = text(content, "done").to_owned();
    let _ = write!(out, " ({})", text(content, "form"));
    match &*policies {
        [] => out += "; no policy of this file knows it",
        policies => {
            let _ = write!(out, " under {}", policies.join(", "));
        }
    }
    if let Some(until) = content["until"].as_str() {
        let _ = write!(out, " until {until}");
    }
    out.push('\n');
    notes(content, &mut out);
    out
}

fn notes(content: &Value, out: &mut String) {
    for note in texts(content, "notes") {
        let _ = writeln!(out, "  {note}");
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

fn texts<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    items(value, key).filter_map(Value::as_str)
}

const NO_TOKEN: &str =
    "changes need an `[admin] token`, which the file does not set: set it, and reload with SIGHUP";

/// Said of an answer that does not come from Redis, although Redis is the store.
pub(super) const DEGRADED: &str = "Redis cannot be asked: these are this gateway's own counts";
