//! `/api/reload`: reads the file again and says what came of it, or says it once more.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::time;
use crate::admin::reloads::{ReloadOutcome, ReloadReport, ReloadSource};
use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;
use crate::admin::state::AdminState;

/// Shows what came of the last reload.
pub(in crate::admin) fn last_reload(state: &AdminState) -> Value {
    let last = state.reloads.last();
    json!({ "last": last.map(|report| described(&report)) })
}

/// Reloads the file, or only says what a reload would change, and waits for that.
pub(in crate::admin) async fn reload(request: &AdminRequest) -> AdminReply {
    let is_dry_run = match request.members(&["dry_run"]) {
        Ok(members) => match members.get("dry_run") {
            None => false,
            Some(Value::Bool(is_dry_run)) => *is_dry_run,
            Some(_) => {
                let detail = "`dry_run` must be true or false.";
                return AdminReply::problem(StatusCode::BAD_REQUEST, detail);
            }
        },
        Err(refused) => return refused,
    };
    let turn = request.state.reloading.lock().await;
    let reloads = Arc::clone(&request.state.reloads);
    let source = ReloadSource::Admin(request.peer);
    // It reads files and compiles them, and the acceptors live on this thread.
    let reloaded = tokio::task::spawn_blocking(move || {
        if is_dry_run {
            Arc::new(reloads.preview(source))
        } else {
            reloads.reload(source)
        }
    });
    let reloaded = reloaded.await;
    drop(turn);
    match reloaded {
        Ok(report) => answer(&report),
        Err(error) => {
            tracing::error!(%error, "the reload did not end");
            let detail = "The reload did not end: the log says why.";
            AdminReply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
        }
    }
}

fn answer(report: &ReloadReport) -> AdminReply {
    let detail = match &report.outcome {
        ReloadOutcome::Applied { .. } => return AdminReply::json(&described(report)),
        ReloadOutcome::Mistakes { .. } => {
            "The file has mistakes: the old configuration stays.".to_owned()
        }
        ReloadOutcome::Unreadable { error } => {
            format!("The file cannot be read: {error}. The old configuration stays.")
        }
    };
    AdminReply::problem_with(StatusCode::UNPROCESSABLE_ENTITY, detail, described(report))
}

/// Names what came of a reload.
pub(super) fn outcome_word(outcome: &ReloadOutcome) -> &'static str {
    match outcome {
        ReloadOutcome::Applied { .. } => "applied",
        ReloadOutcome::Mistakes { .. } => "mistakes",
        ReloadOutcome::Unreadable { .. } => "unreadable",
    }
}

/// Says what came of a reload.
fn described(report: &ReloadReport) -> Value {
    let mut described = match &report.outcome {
        ReloadOutcome::Applied {
            changes,
            needs_restart,
            warnings,
        } => json!({
            "changes": changes,
            "needs_restart": needs_restart,
            "warnings": warnings,
        }),
        ReloadOutcome::Mistakes { lines, report } => json!({
            "mistakes": lines,
            "report": report,
        }),
        ReloadOutcome::Unreadable { error } => json!({
            "error": error,
        }),
    };
    described["result"] = outcome_word(&report.outcome).into();
    described["time"] = time(report.time).into();
    described["source"] = report.source.to_string().into();
    described
}
