//! The page that the admin port serves to browsers: all of it is embedded, and it may do only what it needs to.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::api::{OfFile, TOKEN, ask, config};
use crate::support::Answer;

const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

/// Requests a file as a browser does, and checks its fields for browsers.
#[track_caller]
fn page_file(admin: SocketAddr, path: &str) -> Answer {
    let fields = format!("{HTML}Sec-Fetch-Site: same-origin\r\n");
    let answer = ask(admin, "GET", path, &fields, "");
    assert_eq!(answer.status, 200, "{path}");
    let policy = answer.field("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(
        answer.field("x-content-type-options"),
        Some("nosniff"),
        "{path}"
    );
    answer
}

/// Returns the quoted texts that follow `word`, which includes their opening quote.
fn quoted<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let quote = if word.contains('"') { '"' } else { '\'' };
    let found = text.split(word).skip(1);
    let quoted = found.filter_map(|rest| rest.split(quote).next());
    quoted.collect()
}

#[test]
fn a_browser_gets_a_page_of_which_all_files_are_here_and_nothing_is_inline() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN));
    let admin = gateway.admin();
    let index = page_file(admin, "/").text();
    for inline in [
        "<style",
        " style=",
        " onclick=",
        " onload=",
        "javascript:",
        "src=\"http",
        "href=\"http",
    ] {
        assert!(!index.contains(inline), "{inline}");
    }
    assert!(!index.contains("<script>"));
    let linked = ["src=\"", "href=\""].map(|word| quoted(&index, word));
    let files = linked.into_iter().flatten();
    let files = files.filter(|file| file.starts_with("dashboard/"));
    let mut unread: Vec<String> = files.map(str::to_owned).collect();
    let mut seen = BTreeSet::new();
    while let Some(file) = unread.pop() {
        if !seen.insert(file.clone()) {
            continue;
        }
        let answer = page_file(admin, &format!("/{file}"));
        let content_type = answer.field("content-type").expect("a type");
        let (expected, text) = match file.rsplit('.').next() {
            Some("js") => ("text/javascript", answer.text()),
            Some("css") => ("text/css", String::new()),
            _ => panic!("{file}: {content_type}"),
        };
        assert!(content_type.starts_with(expected), "{file}: {content_type}");
        let imported = quoted(&text, "from './");
        unread.extend(imported.into_iter().map(|name| format!("dashboard/{name}")));
    }
    assert!(seen.len() > 5, "{seen:?}");
}

#[test]
fn others_get_a_list_and_files_that_do_not_exist_are_not_found() {
    let gateway = OfFile::start(&config("10 per minute", TOKEN));
    let listed = ask(gateway.admin(), "GET", "/", "Accept: */*\r\n", "");
    assert_eq!(
        listed.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert!(listed.text().contains("/metrics"));
    for path in [
        "/dashboard/",
        "/dashboard/app.j",
        "/dashboard/../index.html",
        "/dashboard",
    ] {
        assert_eq!(
            ask(gateway.admin(), "GET", path, HTML, "").status,
            404,
            "{path}"
        );
    }
}
