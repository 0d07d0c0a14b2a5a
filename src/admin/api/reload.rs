//! `/api/reload`: reloads the file and answers with the result, previews that, or shows the last result.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinError;

use super::time;
use crate::admin::reloads::{ReloadOutcome, ReloadPreview, ReloadReport, ReloadSource};
use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;
use crate::admin::state::AdminState;
use crate::limiter::{Judged, JudgedPolicy, Limiter, judge};

/// Shows the result of the last reload.
pub(in crate::admin) fn last_reload(state: &AdminState) -> Value {
    let last = state.reloads.last();
    json!({ "last": last.map(|report| described(&report)) })
}

/// Reloads the file, and waits for that.
pub(in crate::admin) async fn reload(request: &AdminRequest) -> AdminReply {
    if let Err(refused) = request.members(&[]) {
        return refused;
    }
    let _turn = request.state.reloading.lock().await;
    let reloads = Arc::clone(&request.state.reloads);
    let source = ReloadSource::Admin(request.peer);
    // A reload reads and compiles files, and the acceptors run on this thread.
    match tokio::task::spawn_blocking(move || reloads.reload(source)).await {
        Ok(report) => answer(&report, described(&report)),
        Err(error) => unfinished(&error),
    }
}

/// Answers with what a reload would do, and which of the known clients it would refuse.
pub(in crate::admin) async fn preview(request: &AdminRequest) -> AdminReply {
    let _turn = request.state.reloading.lock().await;
    let reloads = Arc::clone(&request.state.reloads);
    let source = ReloadSource::Admin(request.peer);
    match tokio::task::spawn_blocking(move || reloads.preview(source)).await {
        Ok(preview) => previewed(request, preview).await,
        Err(error) => unfinished(&error),
    }
}

fn unfinished(error: &JoinError) -> AdminReply {
    tracing::error!(%error, "the reload did not end");
    let detail = "The reload did not end: the log says why.";
    AdminReply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

async fn previewed(request: &AdminRequest, preview: ReloadPreview) -> AdminReply {
    let mut described = described(&preview.report);
    if let Some(config) = preview.config {
        let process = &request.state.process;
        let live = Arc::clone(&process.live());
        let running = live.limiter(&request.session, None, None);
        let other = Limiter {
            snapshot: &config.snapshot,
            partition_key: &config.partition_key,
            ..running
        };
        let judged = judge(&process.known_clients, &running, &other).await;
        described["known_clients"] = known_clients(&judged);
    }
    answer(&preview.report, described)
}

fn known_clients(judged: &Judged) -> Value {
    let sum = |count: fn(&JudgedPolicy) -> usize| judged.policies.iter().map(count).sum::<usize>();
    let policies = judged.policies.iter().map(|policy| {
        json!({
            "name": *policy.name,
            "known": policy.known,
            "refused": policy.refused,
            "refused_already": policy.refused_already,
        })
    });
    json!({
        "known": sum(|policy| policy.known),
        "refused": sum(|policy| policy.refused),
        "refused_already": sum(|policy| policy.refused_already),
        "partial": judged.is_partial,
        "degraded": judged.is_degraded,
        "policies": policies.collect::<Vec<Value>>(),
    })
}

fn answer(report: &ReloadReport, described: Value) -> AdminReply {
    let detail = match &report.outcome {
        ReloadOutcome::Applied { .. } => return AdminReply::json(&described),
        ReloadOutcome::Mistakes { .. } => {
            "The file has mistakes: the old configuration stays.".to_owned()
        }
        ReloadOutcome::Unreadable { error } => {
            format!("The file cannot be read: {error}. The old configuration stays.")
        }
    };
    AdminReply::problem_with(StatusCode::UNPROCESSABLE_ENTITY, detail, described)
}

/// Describes the result of a reload.
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
    described["result"] = report.outcome.word().into();
    described["time"] = time(report.time).into();
    described["source"] = report.source.to_string().into();
    described
}
