//! Scalars of the file: each can be displayed so that it reads the same, and mistakes lie within their text.

use std::net::{IpAddr, Ipv6Addr};

use tollgate::config::display;
use tollgate::config::file::RawEndpoint;
use tollgate::config::value::{self, ValueError};
use tollgate::request::Partition;
use tollgate::request::path::normalise;
use tollgate::request::route::{HostPattern, PathPattern, PatternError};

/// The input is the scalar's text, which every reader tries.
pub fn holds(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    same(text, value::duration, |value| {
        format!("{}ms", value.as_millis())
    });
    same(text, value::size, |one| value::bytes_text(*one));
    same(text, value::network, ToString::to_string);
    same(text, value::listen_address, ToString::to_string);
    same(text, value::client_address, display::address_source);
    same(text, value::name, ToString::to_string);
    same(text, value::method, ToString::to_string);
    same(text, value::header_name, ToString::to_string);
    same(text, value::quota, |value| {
        format!("{} per {}", value.limit, value.window_text)
    });
    same(text, value::part_choice, |value| {
        let list = display::partition(&Partition([value.clone()].into_iter().collect()));
        list.trim_matches(['[', ']', '"']).to_owned()
    });
    same(text, value::endpoint, |value| match value {
        RawEndpoint::Echo => "builtin:echo".to_owned(),
        RawEndpoint::Status(status) => format!("builtin:status/{}", status.as_u16()),
        RawEndpoint::RedirectHttps => "builtin:redirect-https".to_owned(),
        RawEndpoint::Usage => "builtin:usage".to_owned(),
        RawEndpoint::Http(origin) => format!("http://{}", origin.authority),
    });
    if let Ok(RawEndpoint::Http(origin)) = value::endpoint(text) {
        let (host, authority) = (&*origin.host, origin.authority.as_str());
        assert_ne!(origin.port, 0);
        if authority.starts_with('[') {
            assert!(host.parse::<Ipv6Addr>().is_ok(), "{authority}");
        } else {
            assert!(authority.starts_with(host) && !host.contains(['[', ']', ':', '@']));
        }
        assert!(
            host.parse::<IpAddr>().is_ok() || HostPattern::parse(host).is_ok(),
            "{host}"
        );
    }
    wrong(value::admin_address(text).err());
    wrong(value::store_url(text).err());
    wrong(value::header_value(text).err());

    pattern(text, HostPattern::parse(text).err());
    let path = PathPattern::parse(text);
    if let Ok(path) = &path {
        assert!(path.params().iter().all(|name| text.contains(&**name)));
        // A pattern without parameters and without `*` at its end is a path that a request can have.
        if path.params().is_empty() && !text.ends_with('*') {
            assert!(normalise(text).is_ok(), "{text}");
        }
    }
    pattern(text, path.err());
}

/// Asserts that what `read` accepts can be spelled so that it is read as the same value.
fn same<T: PartialEq + std::fmt::Debug>(
    text: &str,
    read: impl Fn(&str) -> Result<T, ValueError>,
    spell: impl Fn(&T) -> String,
) {
    match read(text) {
        Ok(value) => assert_eq!(read(&spell(&value)), Ok(value), "{text:?}"),
        Err(error) => wrong(Some(error)),
    }
}

fn wrong(error: Option<ValueError>) {
    let Some(error) = error else { return };
    assert!(!error.problem.is_empty() && !error.expected.is_empty());
}

fn pattern(text: &str, error: Option<PatternError>) {
    let Some(error) = error else { return };
    assert!(
        text.get(error.span.clone()).is_some(),
        "{error:?} of {text:?}"
    );
    assert!(!error.message.is_empty() && !error.expected.is_empty());
}
