//! `[[routes]]`.

use super::table::{Table, plain};
use super::{BODY_RANGE, TIMEOUTS};
use crate::config::file::Route;
use crate::config::value::{header_name, header_value, method};
use crate::limit::quota::COST_MAX;
use crate::snapshot::EncodedSlash;

pub(super) fn route(table: &mut Table<'_, '_>) -> Route {
    let slashes = [
        ("reject", EncodedSlash::Reject),
        ("keep", EncodedSlash::Keep),
    ];
    Route {
        path: table.free_text("path", "/v1/*"),
        path_regex: table.free_text("path_regex", "/v[0-9]+/.*"),
        host: table.free_text("host", "api.example.com"),
        methods: plain(table.list("methods", "GET", method)).unwrap_or_default(),
        headers: table.pairs(
            "headers",
            "{ x-version = \"2\" }",
            header_name,
            header_value,
        ),
        upstream: table.free_text("upstream", "api"),
        policies: table.names("policies"),
        strip_prefix: table.free_text("strip_prefix", "/api"),
        preserve_host: table.boolean("preserve_host"),
        cost: table.number("cost", 0..=COST_MAX),
        default_policies: table.boolean("default_policies"),
        response_timeout: table.duration("response_timeout", TIMEOUTS),
        body_timeout: table.duration("body_timeout", TIMEOUTS),
        max_body_bytes: plain(table.size("max_body_bytes", BODY_RANGE)),
        encoded_slash: plain(table.word("encoded_slash", &slashes, &[])),
        case_insensitive: table.boolean("case_insensitive"),
        incomplete: table.is_incomplete(),
    }
}
