//! Encoded slashes that a route keeps, and prefixes that a route strips.

use super::{ask, assert_none, check, planted, quiet};
use crate::support::{Client, Garden, Origin, start};

#[test]
fn an_encoded_slash_is_kept_where_the_route_says_so_and_hides_no_other_route() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .route("/files/{name}", "encoded_slash = 'keep'")
        .route("/files/{name}/meta", "")
        .route("/other/{name}", "")
        .route("/v1/login", "methods = ['GET']")
        .route("/v1/*", "encoded_slash = 'keep'")
        .route("/*", "");
    let rows = [
        ("/files/a%2fb", Ok("/files/a%2Fb")),
        ("/files/a%2F..b%2F...", Ok("/files/a%2F..b%2F...")),
        ("/files/a%5cb", Ok("/files/a%5Cb")),
        ("/files/%2F%2Fetc", Ok("/files/%2F%2Fetc")),
        ("/files/a%252Fb", Ok("/files/a%252Fb")),
        ("/other/a%2fb", Err(400)),
        ("/a%2fb", Err(400)),
        // No origin that decodes these finds a way up.
        ("/files/a%2f..", Err(400)),
        ("/files/..%2fv1%2flogin", Err(400)),
        ("/files/%2e%2e%2fv1%2flogin", Err(400)),
        ("/files/a%5c..%5c..%5clogin", Err(400)),
        ("/files/..;%2fa", Err(400)),
        ("/files/a%2f.%3bx", Err(400)),
        ("/files/a\\b", Err(400)),
        ("/files/a%2f%00", Err(400)),
        // These are another route's path once slashes are decoded.
        ("/files/a%2Fmeta", Err(400)),
        ("/files/a%2Fmeta/", Err(400)),
        ("/files/a%5Cmeta", Err(400)),
        ("/files/a%2F%6Deta?x", Err(400)),
        ("/v1%2Flogin", Err(400)),
        ("/v1/%2Flogin", Err(400)),
        ("/v1/%5c%2flogin%2f", Err(400)),
        ("/v1/x%2flogin", Ok("/v1/x%2Flogin")),
        ("/v1/login%252F", Ok("/v1/login%252F")),
    ];
    check(&config, &origin, &rows);
}

#[test]
fn origins_disagree_on_kept_slashes_and_on_nothing_else() {
    let garden = Garden::start(&[]);
    let routes = [("/files/{name}", "encoded_slash = 'keep'")];
    let running = start(&planted(quiet("builtin:echo"), &garden, &routes));
    let mut failures = Vec::new();
    for (name, _) in &garden.origins {
        let mut client = Client::connect(running.public);
        let answer = ask(&mut client, name, "/files/a%2fb%5Cc");
        for reading in garden.readings(name, &answer.body) {
            let expected = if reading.is_decoded() {
                "/files/a/b\\c"
            } else {
                "/files/a%2Fb%5Cc"
            };
            if reading.text() != expected {
                failures.push(format!("{} reads {}", reading.by, reading.text()));
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn a_stripped_prefix_leaves_a_path_that_leads_nowhere_else() {
    let origin = Origin::plain();
    let config = quiet(&origin.url())
        .route("/api/*", "strip_prefix = '/api'\nencoded_slash = 'keep'")
        .route(
            "/Any/v:1/*",
            "strip_prefix = '/Any/v:1'\ncase_insensitive = true",
        );
    let rows = [
        ("/api/x", Ok("/x")),
        ("/api", Ok("/")),
        ("/api/", Ok("/")),
        ("/api?x", Ok("/?x")),
        ("/api//x", Ok("/x")),
        ("//api/./x/../y", Ok("/y")),
        ("/api/api/x", Ok("/api/x")),
        ("/api/%2e//../api/x", Ok("/api/x")),
        ("/api/%2e//../../api/x", Ok("/x")),
        ("/api//evil.test/x", Ok("/evil.test/x")),
        ("/api/./x", Ok("/x")),
        ("/%61pi/x?y=/../z", Ok("/x?y=/../z")),
        ("/api/%2Fevil.test/x", Ok("/%2Fevil.test/x")),
        ("/api/%2e%2e%2e", Ok("/...")),
        ("/any/V%3a1/x", Ok("/x")),
        ("/ANY//v:1", Ok("/")),
        ("/api/../admin", Err(404)),
        ("/api/..", Err(404)),
        ("/api%2e/admin", Err(404)),
        ("/api./admin", Err(404)),
        ("/api%2e%2e/admin", Err(404)),
        ("/apix", Err(404)),
        ("/api/..;/admin", Err(400)),
        ("/api/..%2fadmin", Err(400)),
        ("/api/%2e%2e%5cadmin", Err(400)),
        ("/api%2f..%2fadmin", Err(400)),
    ];
    check(&config, &origin, &rows);
}
