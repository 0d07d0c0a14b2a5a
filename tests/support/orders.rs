//! Directives that operators give for single clients, over the admin port.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::gateway::Running;
use super::metrics::Metered;

/// Token of the admin ports that accept directives.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Posts `content` to `/api/keys/{command}`.
pub fn order(admin: SocketAddr, command: &str, content: &Value) -> Answer {
    let (body, mut client) = (content.to_string(), Client::connect(admin));
    let length = body.len();
    client.ask(format!(
        "POST /api/keys/{command} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// Posts a directive for a client of the policy `p`; returns the status and the body of the answer.
pub fn said(running: &Running, command: &str, value: &str, more: &Value) -> (u16, Value) {
    let mut content = json!({ "policy": "p", "value": value });
    if let (Value::Object(content), Value::Object(more)) = (&mut content, more) {
        content.extend(more.clone());
    }
    let answer = order(running.admin(), command, &content);
    (answer.status, answer.json())
}
