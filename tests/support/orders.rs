//! What operators order for single clients, over the admin port.

use std::net::SocketAddr;

use serde_json::Value;

use super::client::{Answer, Client};

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
