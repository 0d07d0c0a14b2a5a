//! Ports: the listeners and the admin port, no two of which may share an address.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::config::file::{File, Table};
use crate::config::report::Report;
use crate::snapshot::Listener;

/// Compiles `[listeners.NAME]`; what lacks an address is left out.
pub(super) fn compile(file: &File, report: &mut Report) -> Vec<Arc<Listener>> {
    if file.listeners.is_empty() && !file.lost.may_be_any("listeners") {
        let (message, expected) = ("the file has no listener", "a table `[listeners.NAME]`");
        (report.mistake(&(0..0), message, expected))
            .hint("add `[listeners.public]` with `address = \"127.0.0.1:8080\"`");
    }
    let admin = file.admin.value.address;
    let mut taken: Vec<(SocketAddr, String)> = Vec::new();
    taken.extend(admin.map(|address| (address, "the admin port".to_owned())));
    let mut listeners = Vec::new();
    for table in &file.listeners {
        let Some(place) = table.place("address") else {
            continue;
        };
        let (name, address) = (&table.name, table.value.address);
        if let Some((other, by)) = taken.iter().find(|(other, _)| collide(*other, address)) {
            let message = format!("{address} is taken: {by} listens on {other}");
            report.mistake(place, message, "an address of its own");
        }
        taken.push((address, format!("listener `{name}`")));
        listeners.push(listener(table));
    }
    listeners
}

/// Returns a listener as the data plane has it.
pub(in crate::config) fn listener(table: &Table<Listener>) -> Arc<Listener> {
    let name = Arc::clone(&table.name);
    Arc::new(Listener {
        name,
        ..table.value.clone()
    })
}

/// Says whether the system would refuse the second of two addresses.
///
/// Port 0 is another port each time. `[::]` takes IPv6 alone, so it stands beside `0.0.0.0`.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let every = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() == b.port()
        && a.port() != 0
        && a.is_ipv4() == b.is_ipv4()
        && (every || a.ip() == b.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_collide_when_the_system_would_refuse_the_second() {
        let cases = [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:80", "[::]:80", false),
            ("[::]:80", "[::1]:80", true),
        ];
        for (a, b, expected) in cases {
            let address = |text: &str| text.parse().expect("an address");
            assert_eq!(collide(address(a), address(b)), expected, "{a} and {b}");
        }
    }
}
