//! `/api/reload`: reads the file again and says what came of it, or says it once more.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::time;
use crate::admin::reloads::{ReloadOutcome, ReloadReport, ReloadSource};
use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;

/// Says what came of the last reload.
pub(in crate::admin) async fn last(request: &AdminRequest) -> AdminReply {
    let last = request.state.reloads.last();
    AdminReply::json(&json!({ "last": last.map(|report| described(&report)) }))
}

/// Reloads the file, and waits for what comes of it.
pub(in crate::admin) async fn reload(request: &AdminRequest) -> AdminReply {
    if let Err(refused) = request.members(&[]) {
        return refused;
    }
    let turn = request.state.reloading.lock().await;
    let reloads = Arc::clone(&request.state.reloads);
    let source = ReloadSource::Admin(request.peer);
    // It reads files and compiles them, and the acceptors live on this thread.
    let reloaded = tokio::task::spawn_blocking(move || reloads.reload(source)).await;
    drop(turn);
    let report = match reloaded {
        Ok(report) => report,
        Err(error) => {
            tracing::error!(%error, "the reload did not end");
            let detail = "The reload did not end: the log says why.";
            return AdminReply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail);
        }
    };
    let detail = match &report.outcome {
        ReloadOutcome::Applied { .. } => return AdminReply::json(&described(&report)),
        ReloadOutcome::Mistakes { .. } => {
            "The file has mistakes: the old configuration stays.".to_owned()
        }
        ReloadOutcome::Unreadable { error } => {
            format!("The file cannot be read: {error}. The old configuration stays.")
        }
    };
    AdminReply::problem_with(StatusCode::UNPROCESSABLE_ENTITY, detail, described(&report))
}

/// Says what came of a reload.
fn described(report: &ReloadReport) -> Value {
    let mut described = match &report.outcome {
        ReloadOutcome::Applied {
            changes,
            needs_restart,
            warnings,
        } => json!({
            "result": "applied",
            "changes": changes,
            "needs_restart": needs_restart,
            "warnings": warnings,
        }),
        ReloadOutcome::Mistakes { lines, report } => json!({
            "result": "mistakes",
            "mistakes": lines,
            "report": report,
        }),
        ReloadOutcome::Unreadable { error } => json!({
            "result": "unreadable",
            "error": error,
        }),
    };
    described["time"] = time(report.time).into();
    described["source"] = report.source.to_string().into();
    described
}
