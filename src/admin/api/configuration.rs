//! `/api/config`: the configuration in force, without secrets.

use serde_json::{Value, json};

use crate::admin::state::AdminState;

/// Shows every key that differs from its default.
pub(in crate::admin) fn configuration(state: &AdminState) -> Value {
    json!({
        "file": state.reloads.path().map(|path| path.display().to_string()),
        "configuration": state.reloads.configuration(),
    })
}
