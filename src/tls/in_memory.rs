//! Both sides of a connection without a socket.

use rustls::{ClientConnection, ServerConnection};

/// Passes on what each side has to send, until neither has anything.
pub(super) fn exchange(
    client: &mut ClientConnection,
    server: &mut ServerConnection,
) -> Result<(), rustls::Error> {
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).expect("memory takes bytes");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).expect("memory has bytes");
            server.process_new_packets()?;
        }
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).expect("memory takes bytes");
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).expect("memory has bytes");
            client.process_new_packets()?;
        }
    }
    Ok(())
}
