//! `/api/support-dump`: everything that support needs to see, in one archive, without secrets and clients.

use http::header::CONTENT_DISPOSITION;
use http::{HeaderValue, StatusCode};
use serde_json::Value;

use super::archive::archive;
use super::reload::last_reload;
use super::{configuration, connections, overview, policies, routes, store, upstreams, version};
use crate::admin::reply::AdminReply;
use crate::admin::state::AdminState;
use crate::metrics::Exposition;

/// Makes the content of one file.
type Showing = fn(&AdminState) -> Value;

/// Packs all files.
pub(in crate::admin) fn dump(state: &AdminState) -> AdminReply {
    let shown: [(&str, Showing); 9] = [
        ("version.json", version),
        ("overview.json", overview),
        ("config.json", configuration),
        ("reload.json", last_reload),
        ("connections.json", connections),
        ("policies.json", policies),
        ("routes.json", routes),
        ("store.json", store),
        ("upstreams.json", upstreams),
    ];
    let shown = shown.map(|(name, show)| (name, format!("{:#}\n", show(state))));
    let mut files = Vec::from(shown);
    files.push((
        "metrics.txt",
        state.process.metrics.render(Exposition::OpenMetrics),
    ));
    files.push((
        "events.log",
        state
            .events()
            .lines()
            .iter()
            .flat_map(|line| [&**line, "\n"])
            .collect(),
    ));
    let archive = archive(&files, state.process.clock.wall());
    let mut reply = AdminReply::new(StatusCode::OK, "application/x-tar", archive);
    let name = HeaderValue::from_static("attachment; filename=\"tollgate-support-dump.tar\"");
    reply.fields.push((CONTENT_DISPOSITION, name));
    reply
}
