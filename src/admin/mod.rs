//! The private port: health for load balancers, metrics for Prometheus, and an API for operators.
//!
//! It is an HTTP/1.1 server of its own on the control runtime, never on a worker, so it answers while
//! workers are busy, and its clients cannot slow them. [`mod@serve`] holds the connections, [`table`] lists
//! the calls and the access that each needs, [`dispatch`] refuses or receives one request, `api` answers in
//! JSON. Only a token earns trust. The other fields that are read ([`caller`]) only tell whom to refuse:
//! requests that come through a gateway, or from a browser on behalf of another site.

mod api;
mod body;
mod caller;
mod dashboard;
mod dispatch;
mod health;
mod live;
mod reloads;
mod reply;
mod request;
mod serve;
mod sse;
mod state;
mod table;
mod upgrades;

pub use reloads::{
    PreviewedConfig, ReloadControl, ReloadOutcome, ReloadPreview, ReloadReport, ReloadSource,
};
pub use serve::serve;
pub use state::AdminState;
pub use table::calls;
pub use upgrades::{UpgradeReport, UpgradeRequest};

pub(crate) use serve::CONNECTIONS_MAX;
