//! `/api/connections`: what each listener has open, delayed and buffered, and how much of that is allowed.

use serde_json::{Value, json};

use crate::admin::state::AdminState;

/// Shows the listeners in the file's order.
pub(in crate::admin) fn connections(state: &AdminState) -> Value {
    let live = state.process.live();
    let listeners = live.snapshot.listeners.iter_enumerated();
    let listeners = listeners.map(|(index, listener)| {
        let status = state.process.capacity.listener(index).status();
        json!({
            "name": *listener.name,
            "address": listener.address.to_string(),
            "tls": listener.tls.is_some(),
            "open": status.open,
            "open_max": status.open_max,
            "delayed": status.delayed,
            "delayed_max": listener.max_delayed,
            "buffered_bytes": status.buffered_bytes,
            "buffered_bytes_max": listener.max_buffered_bytes,
        })
    });
    json!({
        "listeners": listeners.collect::<Value>(),
        "open_max": state.process.sockets().clients_max(),
    })
}
