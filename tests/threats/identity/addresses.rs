//! Which address a client has: the peer's, or what one source says about it, if a trusted peer sent
//! that. No client spends another's quota by claiming its address.

use super::{AGAIN, Cases, FIRST, ONCE};
use crate::support::{Client, Config, Head, Origin, start};

/// Fields in which proxies name the client's address, and the prefix that each has before it.
const CLAIMS: [(&str, &str); 8] = [
    ("X-Forwarded-For", ""),
    ("Forwarded", "for="),
    ("X-Real-IP", ""),
    ("CF-Connecting-IP", ""),
    ("True-Client-IP", ""),
    ("X-Client-IP", ""),
    ("Client-IP", ""),
    ("X-Cluster-Client-IP", ""),
];

/// Values of `client_address`.
const SOURCES: [&str; 4] = ["x-forwarded-for", "forwarded", "header:x-real-ip", "peer"];

/// A file that allows one request per hour and address, with a listener that trusts `proxies`.
fn once(endpoint: &str, proxies: &str, source: &str) -> Config {
    Config::limited(endpoint, &format!("{ONCE}\npartition = ['ip']")).listener(&format!(
        "trusted_proxies = [{proxies}]\nclient_address = '{source}'"
    ))
}

/// Returns the addresses that the origin is told: the nodes of Forwarded, which the gateway builds anew.
fn told(head: &Head) -> Vec<String> {
    let element = |element: &String| {
        let node = element.split(';').next().unwrap_or_default();
        node.replace("for=", "").replace('"', "")
    };
    head.listed("forwarded").iter().map(element).collect()
}

#[test]
fn untrusted_peer_that_rotates_its_address_in_any_field_has_one_bucket() {
    let mut cases = Cases::default();
    for source in SOURCES {
        let running = start(&once("builtin:echo", "'10.0.0.0/8'", source));
        for (at, (name, prefix)) in (1..).zip(CLAIMS) {
            let mut client = Client::connect_from([127, 0, 1, at], running.public);
            for (claimed, expected) in [
                ("203.0.113.1", FIRST),
                ("203.0.113.2", AGAIN),
                ("203.0.113.3", AGAIN),
                ("10.0.0.1", AGAIN),
                ("127.0.0.1", AGAIN),
                ("::1", AGAIN),
            ] {
                let fields = format!("{name}: {prefix}{claimed}\r\n");
                let found = client.get("/", &fields).status;
                cases.expect(&format!("{source}: {fields}"), found, expected);
            }
        }
    }
    cases.end();
}

#[test]
fn origin_is_told_the_peer_and_nothing_that_an_untrusted_peer_says_of_itself() {
    let mut cases = Cases::default();
    for source in SOURCES {
        let origin = Origin::plain();
        let running = start(&once(&origin.url(), "'10.0.0.0/8'", source));
        for (at, (name, prefix)) in (1..).zip(CLAIMS) {
            let peer = format!("127.0.1.{at}");
            let mut client = Client::connect_from([127, 0, 1, at], running.public);
            // Twice, and in the spelling of an origin that takes `_` for `-`.
            let disguised = name.replace('-', "_");
            let fields = format!(
                "{name}: {prefix}203.0.113.1\r\n{name}: {prefix}203.0.113.2\r\n\
                 {disguised}: {prefix}203.0.113.3\r\n"
            );
            cases.expect(
                &format!("{source}: {name}"),
                client.get("/", &fields).status,
                FIRST,
            );
            let head = origin.requests().pop().expect("it was forwarded").head;
            let case = format!("{source}: {name} at the origin");
            let expected = match name {
                "X-Forwarded-For" => vec![peer.clone()],
                "Forwarded" => vec![format!("for={peer};host=\"a.test\";proto=http")],
                _ => Vec::new(),
            };
            cases.expect(&case, head.listed(name), expected);
            if disguised != name {
                cases.expect(&case, head.listed(&disguised), Vec::new());
            }
            cases.expect(&case, head.listed("x-forwarded-for"), vec![peer.clone()]);
            cases.expect(&case, told(&head), vec![peer]);
        }
    }
    cases.end();
}

/// Returns lines of X-Forwarded-For from a trusted peer, and the client that they mean; `None` is the peer itself.
fn forwarded_for() -> Vec<(&'static str, Vec<String>, Option<&'static str>)> {
    let client = Some("203.0.113.9");
    let thousand = |entry: &str| [entry].repeat(1_000).join(",");
    let past = |hops: usize| vec![format!("203.0.113.9{}", ", 10.1.1.1".repeat(hops))];
    let table: &[(&str, &[&str], Option<&str>)] = &[
        ("none", &[], None),
        ("one", &["203.0.113.9"], client),
        ("forged, real", &["8.8.8.8, 203.0.113.9"], client),
        ("two lines", &["8.8.8.8", "203.0.113.9"], client),
        ("real, trusted", &["8.8.8.8,203.0.113.9 , 10.9.9.9"], client),
        (
            "real on a line, trusted on the next",
            &["203.0.113.9", "10.9.9.9"],
            client,
        ),
        ("real, trusted IPv6", &["203.0.113.9, fd00::7"], client),
        (
            "real, trusted mapped",
            &["203.0.113.9, ::ffff:10.1.1.1"],
            client,
        ),
        (
            "all trusted: the leftmost",
            &["10.1.1.1, 10.2.2.2"],
            Some("10.1.1.1"),
        ),
        ("empty", &[""], None),
        ("commas", &[" ,, "], None),
        ("trailing comma", &["203.0.113.9,"], client),
        ("commas around", &[",, 203.0.113.9 ,, "], client),
        ("port", &["203.0.113.9:55"], client),
        ("port too large", &["203.0.113.9:99999"], None),
        ("port missing", &["203.0.113.9:"], None),
        ("port obfuscated", &["203.0.113.9:_p-1"], client),
        ("port obfuscated by nothing", &["203.0.113.9:_"], None),
        ("port with a percent", &["203.0.113.9:_%2ep"], None),
        ("IPv6", &["2001:db8::1"], Some("2001:db8::1")),
        ("IPv6 in brackets", &["[2001:db8::1]"], Some("2001:db8::1")),
        ("IPv6 with port", &["[2001:db8::1]:5"], Some("2001:db8::1")),
        ("loopback with port", &["[::1]:5"], Some("::1")),
        ("bracket left open", &["[2001:db8::1"], None),
        ("mapped", &["::ffff:203.0.113.9"], client),
        ("mapped in hex", &["::FFFF:cb00:7109"], client),
        ("unknown", &["unknown"], None),
        (
            "unknown after the real one",
            &["203.0.113.9, unknown"],
            None,
        ),
        (
            "unknown before the real one",
            &["unknown, 203.0.113.9"],
            client,
        ),
        ("obfuscated", &["_hidden"], None),
        ("IPv4 with zone", &["1.2.3.4%eth0"], None),
        ("IPv6 with zone", &["fe80::1%eth0"], None),
        ("octal", &["01.2.3.4"], None),
        ("hex", &["0x7f.1"], None),
        ("short", &["1.2.3"], None),
        ("integer", &["2130706433"], None),
        ("network", &["203.0.113.0/24"], None),
        ("quoted", &["\"203.0.113.9\""], None),
        ("a name", &["localhost"], None),
        ("not ASCII", &["203.0.113.9\u{e9}"], None),
        ("full width", &["\u{ff11}.2.3.4"], None),
    ];
    let owned = |&(case, lines, client): &(_, &[&str], _)| {
        (
            case,
            lines.iter().map(ToString::to_string).collect(),
            client,
        )
    };
    let mut table: Vec<_> = table.iter().map(owned).collect();
    // At most 32 entries are read: 31 trusted ones, and the client's.
    table.push(("past 31 trusted", past(31), client));
    table.push(("past 32 trusted", past(32), None));
    table.push(("1,000 trusted", vec![thousand("10.1.1.1")], None));
    let forged = format!("{}, 203.0.113.9", thousand("8.8.8.8"));
    table.push(("1,000 forged, real", vec![forged], client));
    table
}

#[test]
fn trusted_peer_speaks_for_the_rightmost_untrusted_entry_or_for_itself() {
    let mut cases = Cases::default();
    let origin = Origin::plain();
    let proxies = "'127.0.0.0/8', '10.0.0.0/8', 'fd00::/8'";
    for (case, lines, client) in forwarded_for() {
        let running = start(&once(&origin.url(), proxies, "x-forwarded-for"));
        let mut proxy = Client::connect(running.public);
        let fields = |entry: &String| format!("X-Forwarded-For: {entry}\r\n");
        let fields: String = lines.iter().map(fields).collect();
        cases.expect(case, proxy.get("/", &fields).status, FIRST);
        let head = origin.requests().pop().expect("it was forwarded").head;
        let expected: Vec<String> = match client {
            Some(client) if client.contains(':') => vec![format!("[{client}]"), "127.0.0.1".into()],
            Some(client) => vec![client.into(), "127.0.0.1".into()],
            None => vec!["127.0.0.1".into()],
        };
        cases.expect(&format!("{case}, as told"), told(&head), expected);
        // The request counted for that client; a client that cannot be read shares no quota with others.
        let again = client.map_or(String::new(), |ip| format!("X-Forwarded-For: {ip}\r\n"));
        let other = client.map_or("X-Forwarded-For: 198.51.100.1\r\n", |_| "");
        cases.expect(
            &format!("{case}, again"),
            proxy.get("/", &again).status,
            AGAIN,
        );
        cases.expect(
            &format!("{case}, another"),
            proxy.get("/", other).status,
            FIRST,
        );
    }
    cases.end();
}

#[test]
fn unreadable_entries_of_two_proxies_are_two_clients() {
    let mut cases = Cases::default();
    let running = start(&once("builtin:echo", "'127.0.0.0/8'", "x-forwarded-for"));
    for (source, entry, expected) in [
        ([127, 0, 1, 1], "unknown", FIRST),
        ([127, 0, 1, 2], "unknown", FIRST),
        ([127, 0, 1, 1], "_hidden", AGAIN),
        ([127, 0, 1, 2], ",,", AGAIN),
    ] {
        let field = format!("X-Forwarded-For: {entry}\r\n");
        let answer = Client::connect_from(source, running.public).get("/", &field);
        cases.expect(&format!("{source:?} {entry}"), answer.status, expected);
    }
    cases.end();
}

#[test]
fn only_the_configured_source_of_a_trusted_peer_is_believed() {
    let mut cases = Cases::default();
    let all = "X-Forwarded-For: 203.0.113.1\r\nForwarded: for=203.0.113.2\r\n\
               X-Real-IP: 203.0.113.3\r\nCF-Connecting-IP: 203.0.113.4\r\n";
    let by_forwarded = "Forwarded: for=8.8.8.8, For=\"203.0.113.2:80\";proto=https\r\n";
    for (source, client, same) in [
        (
            "x-forwarded-for",
            "203.0.113.1",
            "X-Forwarded-For: 203.0.113.1\r\n",
        ),
        ("forwarded", "203.0.113.2", by_forwarded),
        (
            "header:x-real-ip",
            "203.0.113.3",
            "X-Real-Ip: 203.0.113.3\r\n",
        ),
        (
            "header:cf-connecting-ip",
            "203.0.113.4",
            "CF-Connecting-IP: 8.8.8.8, 203.0.113.4\r\n",
        ),
        ("peer", "127.0.0.1", "X-Forwarded-For: 8.8.8.8\r\n"),
    ] {
        let origin = Origin::plain();
        let running = start(&once(&origin.url(), "'127.0.0.1/32'", source));
        let mut proxy = Client::connect(running.public);
        cases.expect(source, proxy.get("/", all).status, FIRST);
        cases.expect(source, proxy.get("/", same).status, AGAIN);
        let head = origin.only_request().head;
        let mut chain = vec![client, "127.0.0.1"];
        chain.dedup();
        cases.expect(source, head.listed("x-forwarded-for"), strings(&chain));
        cases.expect(source, told(&head), strings(&chain));
        // Its other fields pass, because a trusted peer does not pass on what clients invent.
        cases.expect(source, head.listed("x-real-ip"), strings(&["203.0.113.3"]));
        cases.expect(
            source,
            head.listed("cf-connecting-ip"),
            strings(&["203.0.113.4"]),
        );
    }
    cases.end();
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn untrusted_peer_cannot_spend_the_quota_of_an_address_it_claims() {
    let mut cases = Cases::default();
    for source in SOURCES {
        let running = start(&once("builtin:echo", "'127.0.0.9/32'", source));
        for claimed in ["127.0.0.8", "203.0.113.1"] {
            let claim = |(name, prefix)| format!("{name}: {prefix}{claimed}\r\n");
            let claims: String = CLAIMS.into_iter().map(claim).collect();
            let mut attacker = Client::connect_from([127, 0, 0, 7], running.public);
            for _ in 0..3 {
                attacker.get("/", &claims);
            }
        }
        let near = Client::connect_from([127, 0, 0, 8], running.public).get("/", "");
        cases.expect(&format!("{source}: a peer"), near.status, FIRST);
        let fields = "X-Forwarded-For: 203.0.113.1\r\nForwarded: for=203.0.113.1\r\n\
                      X-Real-IP: 203.0.113.1\r\n";
        let behind = Client::connect_from([127, 0, 0, 9], running.public).get("/", fields);
        cases.expect(&format!("{source}: behind a proxy"), behind.status, FIRST);
    }
    cases.end();
}

/// A field that names clients on another listener is not special on this one.
#[test]
fn each_listener_removes_its_own_field_of_clients_in_every_spelling() {
    let own = |name| format!("trusted_proxies = ['10.0.0.0/8']\nclient_address = 'header:{name}'");
    let other = format!(
        "[listeners.other]\naddress = '127.0.0.1:0'\n{}",
        own("x-caller")
    );
    let config = Config::to("builtin:echo")
        .listener(&own("x-client"))
        .with(&other);
    let running = start(&config.route("/*", ""));
    for (listener, kept) in [("public", "x-caller"), ("other", "x-client")] {
        let names = ["x-client", "x_client", "x-caller", "x_caller"];
        let fields: String = names.map(|name| format!("{name}: 1\r\n")).concat();
        let answer = Client::connect(running.address(listener)).get("/", &fields);
        let echoed = String::from_utf8_lossy(&answer.body).into_owned();
        for name in names {
            let is_kept = name.replace('_', "-") == kept;
            assert_eq!(
                echoed.contains(name),
                is_kept,
                "{listener}: {name} in {echoed}"
            );
        }
    }
}

/// What the origin will not see is read by no limit and no route, either.
#[test]
fn no_policy_counts_by_what_an_untrusted_peer_claims() {
    for name in ["x-real-ip", "x-forwarded-host", "x-client"] {
        let origin = Origin::plain();
        let policy = format!("quota = '3 per hour'\npartition = ['header:{name}']");
        let config = Config::limited(origin.url(), &policy)
            .listener("trusted_proxies = ['10.0.0.0/8']\nclient_address = 'header:x-client'");
        let running = start(&config);
        let admitted = (0..20).filter(|turn| {
            let claim = format!("{name}: 203.0.113.{turn}\r\n");
            Client::connect(running.public).get("/", &claim).status == 200
        });
        assert_eq!(admitted.count(), 3, "{name}");
    }
}
