//! `/api/upgrade`: starts the binary again, hands over to it, and answers with the result.

use http::StatusCode;
use serde_json::json;
use tokio::sync::oneshot;

use crate::admin::reply::AdminReply;
use crate::admin::request::AdminRequest;
use crate::admin::upgrades::{UpgradeReport, UpgradeRequest};
use crate::build_info;

/// Hands over to a new process, and waits until that is done.
pub(in crate::admin) async fn upgrade(request: &AdminRequest) -> AdminReply {
    if let Err(refused) = request.members(&[]) {
        return refused;
    }
    let (report, reported) = oneshot::channel();
    let peer = request.peer;
    if !request
        .state
        .ask_for_upgrade(UpgradeRequest { peer, report })
    {
        return AdminReply::problem(StatusCode::SERVICE_UNAVAILABLE, DEAF);
    }
    match reported.await {
        Ok(UpgradeReport::TakenOver { version, id }) => {
            let taken_over = json!({
                "version": version,
                "process": id,
                "before": { "version": build_info::VERSION, "process": std::process::id() },
            });
            AdminReply::json(&taken_over).closing()
        }
        Ok(UpgradeReport::Failed { reason, report }) => {
            let detail = format!("This process goes on: {reason}.");
            let more = json!({ "report": report });
            AdminReply::problem_with(StatusCode::UNPROCESSABLE_ENTITY, detail, more)
        }
        Ok(UpgradeReport::UnderWay) => {
            AdminReply::problem(StatusCode::CONFLICT, "Another upgrade is under way.")
        }
        Err(_) => AdminReply::problem(StatusCode::SERVICE_UNAVAILABLE, DEAF),
    }
}

const DEAF: &str = "This gateway cannot be upgraded now: it is stopping, or was not started as a process of its own.";
