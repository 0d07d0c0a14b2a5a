//! Addresses and networks.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use http::HeaderName;
use ipnet::IpNet;

use super::{ValueError, header_after_prefix, word};
use crate::request::AddressSource;
use crate::snapshot::ListenAddress;

/// Parses the address of a listener: an IP address and a port, or `unix:` and the path of a socket.
pub fn listen_address(text: &str) -> Result<ListenAddress, ValueError> {
    if let Some(path) = text.strip_prefix("unix:") {
        return socket_path(path).map(ListenAddress::Unix);
    }
    let mut wrong = match socket_address(text) {
        Ok(address) => return Ok(ListenAddress::Tcp(address)),
        Err(wrong) => wrong,
    };
    wrong.expected += ", or `unix:PATH`";
    // Other products write `/run/x.sock`, `unix@/run/x.sock` or `unix//run/x.sock|0660`.
    let is_file = text.starts_with(['/', '.', '@']) || text.starts_with("unix");
    if let Some(slash) = text.find('/').filter(|_| is_file) {
        let path = text[slash..].trim_start_matches('/');
        let path = path.split_once('|').map_or(path, |(path, _)| path);
        wrong.hint = Some(format!("did you mean `unix:/{path}`?"));
    }
    Err(wrong)
}

/// Returns the path of a Unix socket, or `None` if the text names a host. `///PATH`, or with more slashes, is `/PATH`.
pub(super) fn socket_path_of_url(text: &str) -> Option<&str> {
    let Some(path) = text.strip_prefix("//") else {
        return Some(text);
    };
    let rest = path.trim_start_matches('/');
    path.get((path.len() - rest.len()).checked_sub("/".len())?..)
}

/// Parses the path of a Unix socket.
fn socket_path(text: &str) -> Result<PathBuf, ValueError> {
    let wrong = |problem| ValueError::new(problem, "a path such as `unix:/run/tollgate.sock`");
    let path = socket_path_of_url(text).ok_or_else(|| wrong("names a host"))?;
    if path.contains([':', '|', '?']) {
        let hint = "nothing follows the path; the mode of the socket is always 0660";
        return Err(wrong("says more than a path").hint(hint));
    }
    if path.is_empty() || path.ends_with('/') || path.contains(char::is_control) {
        return Err(wrong("names no socket"));
    }
    if path.starts_with('@') {
        let hint = "every process of the machine could connect to it: a file says who may";
        return Err(wrong("names an abstract socket").hint(hint));
    }
    if path.len() > SOCKET_PATH_LEN_MAX {
        return Err(
            wrong("has a path that is too long").hint("the system allows at most 107 bytes")
        );
    }
    Ok(PathBuf::from(path))
}

/// Parses an IP address and a port, such as `127.0.0.1:8080` or `[::]:8080`.
fn socket_address(text: &str) -> Result<SocketAddr, ValueError> {
    let wrong = || {
        ValueError::new(
            "is not an address to listen on",
            "an IP address and a port such as `127.0.0.1:8080` or `[::]:8080`",
        )
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let unbracketed = text.rsplit_once(':').filter(|(host, port)| {
        host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok_and(|port| port >= 80)
    });
    if let Some((host, port)) = unbracketed {
        let hint = format!("IPv6 addresses are written in brackets: `[{host}]:{port}`");
        return Err(wrong().hint(hint));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        let hint = format!("a port is missing: `{}`", SocketAddr::new(ip, 8080));
        return Err(wrong().hint(hint));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return match text.parse::<u16>() {
            Ok(port) => Err(wrong().hint(format!(
                "did you mean `127.0.0.1:{port}`, or `0.0.0.0:{port}` for every interface?"
            ))),
            Err(_) => Err(wrong()),
        };
    };
    if port.parse::<u16>().is_err() {
        return Err(wrong().hint("a port is a number from 0 to 65535"));
    }
    Err(match host {
        "" | "*" => wrong().hint(format!(
            "for every interface write `0.0.0.0:{port}` (IPv4) or `[::]:{port}` (IPv6)"
        )),
        "localhost" => wrong().hint(format!(
            "write `127.0.0.1:{port}`: names are not resolved here"
        )),
        _ => wrong().hint("names are not resolved here"),
    })
}

/// Parses the admin port's address; `off` becomes `None`.
pub fn admin_address(text: &str) -> Result<Option<SocketAddr>, ValueError> {
    if text == "off" {
        return Ok(None);
    }
    let mut wrong = match socket_address(text) {
        Ok(address) => return Ok(Some(address)),
        Err(wrong) => wrong,
    };
    "an IP address and a port such as `127.0.0.1:8090`, or `off`".clone_into(&mut wrong.expected);
    if matches!(text, "none" | "false" | "no" | "disabled" | "") {
        wrong.hint = Some("did you mean `off`?".to_owned());
    } else if text.starts_with("unix:") {
        wrong.hint = Some("only `[listeners.NAME]` can listen on a Unix socket".to_owned());
    }
    Err(wrong)
}

/// JSON Schema pattern that every address of a listener matches.
pub const LISTEN_PATTERN: &str =
    r"^unix:(///|/?[^/@])[^:|?]*$|^([0-9.]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}$";
/// JSON Schema pattern that every address of the admin port matches.
pub const ADMIN_PATTERN: &str = r"^off$|^([0-9.]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}$";
/// JSON Schema pattern that every network matches.
pub const NETWORK_PATTERN: &str = "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$";
/// JSON Schema pattern that every `client_address` matches.
pub const SOURCE_PATTERN: &str = "^(x-forwarded-for|forwarded|peer)$|^header:";

/// Longest path that fits `sockaddr_un` with its NUL.
pub(super) const SOCKET_PATH_LEN_MAX: usize = 107;

/// Parses a network such as `10.0.0.0/8`, or an address, which is a network of one.
pub fn network(text: &str) -> Result<IpNet, ValueError> {
    if let Ok(network) = text.parse::<IpNet>() {
        return Ok(network.trunc());
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(ip.into());
    }
    let wrong = ValueError::new(
        "is not a network",
        "a network such as `10.0.0.0/8`, or an address",
    );
    let hint = match text.split_once('/').map(|(ip, bits)| (ip.parse(), bits)) {
        Some((Ok(IpAddr::V4(_)), _)) => "an IPv4 network has a prefix of 0 to 32 bits",
        Some((Ok(IpAddr::V6(_)), _)) => "an IPv6 network has a prefix of 0 to 128 bits",
        _ if matches!(text, "*" | "any" | "all") => "for everyone write `0.0.0.0/0` and `::/0`",
        _ if text.parse::<SocketAddr>().is_ok() => "leave the port out",
        _ if text == "localhost" => "did you mean `127.0.0.1` and `::1`?",
        _ if text.starts_with("private") => {
            "name the networks: `10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`"
        }
        _ if text.ends_with(".*") => "write the network by its prefix: `10.0.0.0/8`",
        _ if text.contains('-') && text.starts_with(|c: char| c.is_ascii_digit()) => {
            "a range is written as networks: `10.0.0.0/8`"
        }
        _ if text.contains('.') && text.contains(|c: char| c.is_ascii_alphabetic()) => {
            "names are not resolved here: write addresses or networks"
        }
        _ => return Err(wrong),
    };
    Err(wrong.hint(hint))
}

/// Parses `client_address`: where a trusted peer names the client whose request it forwards.
pub fn client_address(text: &str) -> Result<AddressSource, ValueError> {
    if let Some(name) = text.strip_prefix("header:") {
        return header_after_prefix(name).map(AddressSource::Header);
    }
    let sources = [
        ("x-forwarded-for", AddressSource::XForwardedFor),
        ("forwarded", AddressSource::Forwarded),
        ("peer", AddressSource::Peer),
    ];
    word(text, &sources).map_err(|mut wrong| {
        "`x-forwarded-for`, `forwarded`, `header:NAME` or `peer`".clone_into(&mut wrong.expected);
        if text == "proxy" {
            let hint =
                "set `proxy_protocol = true` on the listener, and `client_address = \"peer\"`";
            wrong.hint = Some(hint.to_owned());
        } else if HeaderName::try_from(text).is_ok_and(|name| name.as_str().contains('-')) {
            let meant = wrong.hint.take();
            wrong.hint = meant.or(Some(format!("did you mean `header:{text}`?")));
        }
        wrong
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on_are_numbers() {
        assert_eq!(
            socket_address("[::1]:80"),
            Ok("[::1]:80".parse().expect("an address"))
        );
        for (text, hint) in [
            (
                "8080",
                "did you mean `127.0.0.1:8080`, or `0.0.0.0:8080` for every interface?",
            ),
            (
                "localhost:80",
                "write `127.0.0.1:80`: names are not resolved here",
            ),
            ("0.0.0.0:80000", "a port is a number from 0 to 65535"),
            ("fe80::1:2:zz:80", "names are not resolved here"),
        ] {
            assert_eq!(
                socket_address(text).expect_err(text).hint.as_deref(),
                Some(hint)
            );
        }
        assert_eq!(admin_address("off"), Ok(None));
        let meant = admin_address("none").expect_err("no address").hint;
        assert_eq!(meant.as_deref(), Some("did you mean `off`?"));
    }

    #[test]
    fn unix_socket_is_a_path_that_the_system_takes() {
        let long = format!("/{}", "a".repeat(SOCKET_PATH_LEN_MAX - 1));
        for (text, path) in [
            ("unix:/run/tollgate.sock", "/run/tollgate.sock"),
            ("unix:///run/tollgate.sock", "/run/tollgate.sock"),
            ("unix:////run/tollgate.sock", "/run/tollgate.sock"),
            ("unix:tollgate.sock", "tollgate.sock"),
            (&*format!("unix:{long}"), &*long),
        ] {
            let expected = ListenAddress::Unix(PathBuf::from(path));
            assert_eq!(listen_address(text), Ok(expected));
        }
        for (text, problem) in [
            ("unix:/run/", "names no socket"),
            ("unix:/a\0b", "names no socket"),
            ("unix://host/a", "names a host"),
            ("unix:/run/a.sock:", "says more than a path"),
            ("unix:/run/a.sock|0222", "says more than a path"),
            (&*format!("unix:{long}a"), "has a path that is too long"),
        ] {
            assert_eq!(listen_address(text).expect_err(text).problem, problem);
        }
        for (text, hint) in [
            ("/run/a.sock", "did you mean `unix:/run/a.sock`?"),
            ("unix@/run/a.sock", "did you mean `unix:/run/a.sock`?"),
            ("unix//run/a.sock|0222", "did you mean `unix:/run/a.sock`?"),
        ] {
            let wrong = listen_address(text).expect_err(text);
            assert_eq!(wrong.hint.as_deref(), Some(hint));
        }
        let hint = admin_address("unix:/run/a.sock").expect_err("no port").hint;
        assert!(hint.is_some_and(|hint| hint.contains("[listeners.NAME]")));
    }

    #[test]
    fn networks_lose_their_host_bits() {
        let net = |text: &str| text.parse::<IpNet>().expect("a network");
        assert_eq!(network("10.1.2.3/8"), Ok(net("10.0.0.0/8")));
        assert_eq!(network("::1"), Ok(net("::1/128")));
        for text in ["10.0.0.0/33", "::/129", "*", "10.0.0.1:80"] {
            assert!(network(text).expect_err(text).hint.is_some(), "{text}");
        }
    }

    #[test]
    fn a_bare_header_name_is_taken_for_what_it_is() {
        let header = HeaderName::from_static("cf-connecting-ip");
        assert_eq!(
            client_address("header:CF-Connecting-IP"),
            Ok(AddressSource::Header(header))
        );
        let hint = |text| client_address(text).expect_err(text).hint;
        assert_eq!(
            hint("x-real-ip").as_deref(),
            Some("did you mean `header:x-real-ip`?")
        );
        assert_eq!(
            hint("x-forwarded-by").as_deref(),
            Some("did you mean `x-forwarded-for`?")
        );
    }
}
