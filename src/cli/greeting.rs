//! What a gateway prints when it starts.

use std::path::Path;

use crate::build_info;
use crate::gateway::Gateway;
use crate::snapshot::ListenAddress;

/// Prints to standard error where the gateway listens, and what to try.
pub(super) fn greet(gateway: &Gateway, file: &Path) {
    eprintln!("tollgate {}: read {}", build_info::VERSION, file.display());
    for (name, address) in gateway.addresses() {
        let scheme = gateway.scheme(name);
        match address {
            ListenAddress::Tcp(address) => {
                eprintln!("  listening on {scheme}://{address} (listeners.{name})");
            }
            ListenAddress::Unix(_) => {
                eprintln!("  listening on {address} ({scheme}, listeners.{name})");
            }
        }
    }
    if let Some(address) = gateway.admin_address() {
        eprintln!("  admin port on http://{address}: /livez /readyz /metrics");
    }
    if let Some((name, address)) = gateway.addresses().first() {
        let scheme = gateway.scheme(name);
        match address {
            ListenAddress::Tcp(address) => eprintln!("  try: curl -i {scheme}://{address}/"),
            ListenAddress::Unix(path) => {
                let path = path.display();
                eprintln!("  try: curl -i --unix-socket {path} {scheme}://localhost/");
            }
        }
    }
}
