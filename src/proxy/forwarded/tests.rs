use super::*;
use crate::request::hop_by_hop::tests::fields;

const PEER: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
const CLIENT: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9)));

fn annotated(lines: &[(&str, &str)], believed: Option<&AddressSource>) -> HeaderMap {
    let mut headers = fields(lines);
    let client = if believed.is_some() { CLIENT } else { PEER };
    let sender = Sender {
        peer: PEER,
        client,
        believed,
        scheme: "http",
    };
    annotate(&mut headers, &sender);
    headers
}

const UNTRUSTED: Sender<'_> = Sender {
    peer: PEER,
    client: PEER,
    believed: None,
    scheme: "http",
};

/// The request's value is part of the buffer that its head came in, which is to be freed.
#[test]
fn what_is_remembered_of_a_request_is_a_copy() {
    let headers = fields(&[("host", "shop.example")]);
    let mut latest = LatestFields::default();
    let fields = common(&headers, &UNTRUSTED, &mut latest).expect("fields");
    let kept = latest.0.and_then(|fields| fields.host).expect("a host");
    let values = fields.iter().map(|(_, value)| value).chain([&kept]);
    let sent = headers[HOST].as_bytes();
    assert_eq!(kept, "shop.example");
    assert!(
        values
            .into_iter()
            .all(|value| value.as_bytes().as_ptr() != sent.as_ptr())
    );
}

#[test]
fn addresses_are_written_as_rfc_7239_wants_them() {
    let write = |address: &str| {
        let mut text = FieldText::default();
        text.forwarded_for(address.parse().expect("an address"));
        text.take()
    };
    assert_eq!(write("2001:db8::1"), r#"for="[2001:db8::1]""#);
    assert_eq!(write("::ffff:192.0.2.1"), "for=192.0.2.1");
}

#[test]
fn what_is_remembered_is_for_the_same_host_only() {
    let mut latest = LatestFields::default();
    for lines in [
        &[("host", "a.test")][..],
        &[("host", "a.test")],
        &[("host", "b.test")],
        &[],
        &[("host", "a.test")],
    ] {
        let headers = fields(lines);
        let fields = common(&headers, &UNTRUSTED, &mut latest).expect("fields");
        let fields = fields.iter().cloned();
        let sent: HeaderMap = headers
            .into_iter()
            .filter_map(named)
            .chain(fields)
            .collect();
        assert_eq!(sent, annotated(lines, None));
    }
}

fn named((name, value): (Option<HeaderName>, HeaderValue)) -> Option<(HeaderName, HeaderValue)> {
    Some((name?, value))
}

#[test]
fn nothing_is_common_of_a_request_that_says_where_it_has_been() {
    let passed = fields(&[("host", "a.test"), ("cdn-loop", "other")]);
    let fresh = fields(&[("host", "a.test")]);
    let source = AddressSource::XForwardedFor;
    let trusted = Sender {
        believed: Some(&source),
        ..UNTRUSTED
    };
    let is_common =
        |headers, sender| common(headers, sender, &mut LatestFields::default()).is_some();
    assert!(!is_common(&passed, &UNTRUSTED));
    assert!(!is_common(&fresh, &trusted));
    assert!(is_common(&fresh, &UNTRUSTED));
}
