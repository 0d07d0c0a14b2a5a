use redis::Value;

use super::*;

fn at(host: &str, port: u16) -> Address {
    let host = host.into();
    Address { host, port }
}

fn asked() -> Address {
    at("seed.example", 7000)
}

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// Returns a range without replicas, as servers since Redis 7 describe it.
fn range(first: i64, last: i64, endpoint: Value, port: i64) -> Value {
    let primary = Value::Array(vec![endpoint, Value::Int(port), bulk("id")]);
    Value::Array(vec![Value::Int(first), Value::Int(last), primary])
}

fn owner(slots: &Slots, slot: u16) -> Option<&Address> {
    slots.nodes().get(usize::from(slots.index(slot)?))
}

fn read(ranges: Vec<Value>) -> Result<Slots, UnreadableSlots> {
    Slots::read(&Value::Array(ranges), &asked())
}

#[test]
fn each_slot_has_the_primary_that_the_reply_names() {
    let slots = read(vec![
        range(0, 5_460, bulk("10.0.0.1"), 6_379),
        range(5_461, 10_922, bulk("::1"), 6_380),
        range(10_923, 16_383, bulk("redis-2"), 6_381),
        range(7, 7, bulk("redis-2"), 6_381),
    ])
    .expect("a map");
    assert_eq!(owner(&slots, 0), Some(&at("10.0.0.1", 6_379)));
    assert_eq!(owner(&slots, 5_461), Some(&at("::1", 6_380)));
    assert_eq!(owner(&slots, 16_383), Some(&at("redis-2", 6_381)));
    assert_eq!(owner(&slots, 7), Some(&at("redis-2", 6_381)));
    assert_eq!(slots.nodes().len(), 3);
    assert!(!slots.has_gaps());
}

#[test]
fn node_without_a_host_is_where_the_asked_one_is() {
    let slots = read(vec![
        range(0, 1, bulk(""), 7_001),
        range(2, 3, Value::Nil, 7_002),
    ])
    .expect("a map");
    assert_eq!(owner(&slots, 0), Some(&at("seed.example", 7_001)));
    assert_eq!(owner(&slots, 3), Some(&at("seed.example", 7_002)));
    assert!(slots.has_gaps());
}

#[test]
fn node_of_unknown_name_is_reached_by_its_address() {
    let named = |names| {
        let primary = Value::Array(vec![bulk("?"), Value::Int(7_001), bulk("id"), names]);
        let range = Value::Array(vec![Value::Int(0), Value::Int(9), primary]);
        let slots = read(vec![range, range_of_another()]).expect("a map");
        owner(&slots, 5).cloned()
    };
    let resp3 = Value::Map(vec![(bulk("ip"), bulk("10.0.0.7"))]);
    let resp2 = Value::Array(vec![
        bulk("hostname"),
        bulk("x"),
        bulk("ip"),
        bulk("10.0.0.7"),
    ]);
    assert_eq!(named(resp3), Some(at("10.0.0.7", 7_001)));
    assert_eq!(named(resp2), Some(at("10.0.0.7", 7_001)));
    let unknown = Value::Map(vec![(bulk("ip"), bulk(""))]);
    assert_eq!(named(unknown), Some(at("seed.example", 7_001)));
    assert_eq!(named(Value::Array(Vec::new())), None);
}

fn range_of_another() -> Value {
    range(10, 16_383, bulk("10.0.0.8"), 7_002)
}

#[test]
fn odd_replies_are_no_map() {
    let shape = Err(UnreadableSlots::Shape);
    assert_eq!(read(vec![]), Err(UnreadableSlots::Empty));
    assert_eq!(Slots::read(&Value::Nil, &asked()), shape);
    assert_eq!(Slots::read(&bulk("0-5"), &asked()), shape);
    assert_eq!(read(vec![Value::Array(vec![Value::Int(1)])]), shape);
    assert_eq!(read(vec![range(0, 16_384, bulk("a"), 1)]), shape);
    assert_eq!(read(vec![range(-1, 5, bulk("a"), 1)]), shape);
    assert_eq!(read(vec![range(9, 5, bulk("a"), 1)]), shape);
    assert_eq!(read(vec![range(0, 5, bulk("a"), 0)]), shape);
    assert_eq!(read(vec![range(0, 5, bulk("a"), 65_536)]), shape);
    assert_eq!(read(vec![range(0, 5, Value::Int(3), 1)]), shape);
    let many = (0..=1_000).map(|port| range(port, port, bulk("a"), port + 1));
    assert_eq!(read(many.collect()), Err(UnreadableSlots::TooMany));
}

#[test]
fn learned_owner_takes_its_slot_alone() {
    let mut slots = read(vec![range(0, 16_383, bulk("a"), 1)]).expect("a map");
    slots.assign(5, 5, at("b", 2)).expect("room");
    let owners = [4, 5, 6].map(|slot| owner(&slots, slot).cloned());
    assert_eq!(
        owners,
        [at("a", 1), at("b", 2), at("a", 1)].map(Some),
        "its neighbours stay"
    );
}

#[test]
fn redirections_name_their_node() {
    let to = |text| redirected(text, &asked());
    for (text, host) in [
        ("127.0.0.1:6381", "127.0.0.1"),
        ("::1:6381", "::1"),
        (":6381", "seed.example"),
        ("redis-3:6381", "redis-3"),
    ] {
        assert_eq!(to(text), Some(Redirected::To(at(host, 6_381))));
    }
    assert_eq!(to("?:6381"), Some(Redirected::OnPort(6_381)));
    for text in ["", "host", "h:0", "?:0", "h:99999", "h:x"] {
        assert_eq!(to(text), None, "{text}");
    }
}
