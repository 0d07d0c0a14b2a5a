//! Files of thousands of routes and policies: they load, and every mistake in them is reported.
//!
//! What they cost is measured in `benches/config`.

use std::fmt::Write as _;

use tollgate::config::load;
use tollgate::limit::plan::SeriesId;

use crate::support::{Client, Config, start};

/// Routes of ten kinds, which the status of an answer tells apart; every ten routes share a host and a policy.
fn large(routes: usize) -> Config {
    let mut tables = "[log]\naccess = 'off'\n".to_owned();
    for status in 230..240 {
        let _ = writeln!(
            tables,
            "[upstreams.s{status}]\nendpoints = 'builtin:status/{status}'"
        );
    }
    for policy in 0..routes.div_ceil(10) {
        let _ = writeln!(tables, "[policies.policy-{policy}]\nquota = '99 per s'");
    }
    for at in 0..routes {
        let _ = writeln!(
            tables,
            "[[routes]]\n{}\nupstream = 's{}'\npolicies = ['policy-{}']",
            asked(at),
            230 + at % 10,
            at / 10
        );
    }
    Config::to("builtin:echo").with(&tables)
}

/// Returns what the route at `at` matches.
fn asked(at: usize) -> String {
    let host = at / 10;
    match at % 10 {
        0 => format!("path = '/item-{at}'"),
        1 => format!("path = '/item-{at}/{{id}}'"),
        2 => format!("path = '/item-{at}/*'"),
        3 => format!("path = '/tenant'\nheaders = {{ x-tenant = 't{at}' }}"),
        4 => format!("path = '/tenant/{{id}}'\nheaders = {{ x-tenant = 't{at}' }}"),
        5 => format!("path = '/x'\nhost = 'h{host}.example.com'"),
        6 => format!("path = '/x/*'\nhost = 'h{host}.example.com'"),
        7 => format!("path = '/x'\nhost = '*.h{host}.example.com'"),
        8 if at < EXPRESSIONS => format!("path_regex = '/v[0-9]+/item-{at}(/.*)?'"),
        _ => format!("path = '/a/b/c/item-{at}'\nmethods = ['GET']"),
    }
}

/// A request for the route at `at`: target, host, tenant.
fn request(at: usize) -> (String, String, String) {
    let host = at / 10;
    let at_host = |host: String, target: &str| (target.to_owned(), host, "none".to_owned());
    let to = |target: String| (target, "x.org".to_owned(), format!("t{at}"));
    match at % 10 {
        0 => to(format!("/item-{at}")),
        1 => to(format!("/item-{at}/7")),
        2 => to(format!("/item-{at}/7/8")),
        3 => to("/tenant".to_owned()),
        4 => to("/tenant/7".to_owned()),
        5 => at_host(format!("h{host}.example.com"), "/x"),
        6 => at_host(format!("h{host}.example.com"), "/x/y"),
        7 => at_host(format!("a.b.h{host}.example.com"), "/x"),
        8 if at < EXPRESSIONS => to(format!("/v2/item-{at}/7")),
        _ => to(format!("/a/b/c/item-{at}")),
    }
}

fn ask(client: &mut Client, at: usize) -> u16 {
    let (target, host, tenant) = request(at);
    let head = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nx-tenant: {tenant}\r\n\r\n");
    client.ask(head).status
}

fn status(at: usize) -> u16 {
    230 + u16::try_from(at % 10).expect("a digit")
}

#[test]
fn each_of_ten_thousand_routes_answers_what_is_its_own() {
    let running = start(&large(10_000));
    let mut client = Client::connect(running.public);
    let mut wrong = Vec::new();
    for at in (0..10_000).step_by(31).chain([9_990, 9_999]) {
        let answered = ask(&mut client, at);
        if answered != status(at) {
            wrong.push((request(at), answered));
        }
    }
    assert_eq!(wrong, []);
    let unknown = "GET /tenant HTTP/1.1\r\nhost: x.org\r\nx-tenant: t0\r\n\r\n";
    assert_eq!(client.ask(unknown).status, 404);
}

#[test]
fn every_mistake_of_a_large_file_is_said_with_its_line() {
    let mut text = large(10).text();
    let first = text.lines().count() + 1;
    for at in 0..2_000 {
        let _ = writeln!(
            text,
            "[[routes]]\npath = '/{at}'\nupstream = 'apo-{at}'\ncost = -1"
        );
    }
    let report = load(&text, &|_| None, &mut |_| SeriesId(0)).expect_err("mistakes");
    let expected: Vec<_> = (0..2_000)
        .flat_map(|at| [(at, 2, 12), (at, 3, 8)])
        .map(|(at, line, column)| format!("f:{}:{column}:", first + 4 * at + line))
        .collect();
    let lines = report.lines("f", &text);
    let places: Vec<_> = (lines.iter().zip(&expected))
        .filter(|(line, place)| !line.starts_with(*place))
        .collect();
    assert_eq!(lines.len(), expected.len());
    assert_eq!(places, []);
    let rendered = report.render("f", &text, false);
    assert_eq!(rendered.matches("error: ").count(), 4_000);
    assert!(rendered.ends_with("f: 4000 mistakes\n"));
}

/// Routes before this one may be expressions, which are slow to compile in a build without optimisation.
const EXPRESSIONS: usize = 2_000;
