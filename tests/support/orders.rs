//! What operators order for single clients, over the admin port.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::gateway::Running;
use super::metrics::Metered;

/// The token of admin ports that take orders.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Posts to `/api/keys`.
pub fn order(admin: SocketAddr, command: &str, content: &Value) -> Answer {
    let (body, mut client) = (content.to_string(), Client::connect(admin));
    let length = body.len();
    client.ask(format!(
        "POST /api/keys/{command} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// Orders something for a client of the policy `p`; returns the status, and what is said.
pub fn said(running: &Running, command: &str, value: &str, more: &Value) -> (u16, Value) {
    let mut content = json!({ "policy": "p", "value": value });
    if let (Value::Object(content), Value::Object(more)) = (&mut content, more) {
        content.extend(more.clone());
    }
    let answer = order(running.admin(), command, &content);
    (answer.status, answer.json())
}
