//! Slow clients, many clients, large heads, bytes meant for logs and for the admin port.
