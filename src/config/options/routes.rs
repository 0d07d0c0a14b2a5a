//! `[[routes]]`.

use std::sync::{Arc, LazyLock};

use super::bounds::{BODY_BYTES, TIMEOUTS};
use super::kind::{
    boolean, duration, duration_or_off, fields, free_text, list, list_or_one, size, text, word,
};
use super::{TableSpec, costs};
use crate::config::display;
use crate::config::file::{ForwardPath, RawRoute};
use crate::config::value::{
    NAME_PATTERN, TOKEN_PATTERN, answer_field, field_value, header_value, method, name,
    page_origin, request_field, routed_header_name, upgrade,
};
use crate::snapshot::EncodedSlash;

/// `[[routes]]`
pub static ROUTE: LazyLock<TableSpec<RawRoute>> = LazyLock::new(|| {
    let slash = word(display::ENCODED_SLASH).or(EncodedSlash::Reject);
    let headers = fields("{ x-version = \"2\" }", routed_header_name, header_value);
    let text_at = |example| free_text(example).spanned().or_none("none");
    let path = free_text("/v1/*").matching("^/").spanned().or_none("none");
    let protocol = text("websocket", upgrade, ToString::to_string);
    let upgrades = list(protocol).plain(Vec::into_boxed_slice, |names| display::list(names));
    let timeout = || duration(TIMEOUTS).or_none("the upstream's");
    let silence = duration_or_off(TIMEOUTS).or_none("the upstream's");
    let origin = text("https://app.example.com", page_origin, display::field_value);
    let event = text(
        "message_stop",
        |text| name(text).map(Arc::from),
        |event: &Arc<str>| event.to_string(),
    );
    let called = text("checkout", name, String::clone)
        .matching(NAME_PATTERN)
        .spanned();
    TableSpec::<RawRoute>::of("route", "[[routes]]")
        .about("The most specific route is used: compared by host, then by path, segment by segment, then by methods and headers.")
        .key("name", called.or_none("its path"))
        .sets(|table| &mut table.name)
        .doc("The route's name in logs and metrics, and in partitions by `route`.")
        .key("path", path)
        .sets(|table| &mut table.path)
        .doc("The path to match: \"/v1/product\" is exact, \"{id}\" matches one segment, a final \"*\" matches the rest.")
        .key("path_regex", text_at("/v[0-9]+/.*"))
        .sets(|table| &mut table.path_regex)
        .doc("A regular expression that must match the whole path, in the syntax of Rust's regex crate.")
        .key("host", text_at("api.example.com"))
        .sets(|table| &mut table.host)
        .doc("The host to match: exact, or \"*.example.com\".")
        .key("methods", list(text("GET", method, ToString::to_string).matching(TOKEN_PATTERN)))
        .sets(|table| &mut table.methods)
        .doc("Methods to match.")
        .key("headers", headers)
        .sets(|table| &mut table.headers)
        .doc("Headers that must be present: with this value, with any if it is \"*\", or with one that the expression after \"re:\" matches.")
        .key("upstream", text_at("api"))
        .sets(|table| &mut table.upstream)
        .doc("The name of an upstream.")
        .key("policies", list(free_text("per-client")))
        .sets(|table| &mut table.policies)
        .doc("Names of policies.")
        .key("strip_prefix", text_at("/api"))
        .sets(|table| &mut table.strip_prefix)
        .doc("Literal segments to remove from the start of the path before forwarding.")
        .key("rewrite", text_at("/users/{id}/*"))
        .sets(|table| &mut table.rewrite)
        .doc("The path to forward, built from the `{param}`s and the final \"*\" of `path`.")
        .key("forward_path", word(display::FORWARD_PATHS).or(ForwardPath::AsMatched))
        .sets(|table| &mut table.forward_path)
        .doc("How the forwarded path is spelled:")
        .key("preserve_host", boolean().or(true))
        .sets(|table| &mut table.route.preserve_host)
        .doc("Whether the upstream gets the client's Host header.")
        .key("upgrades", upgrades.or(["websocket".into()].into()))
        .sets(|table| &mut table.route.upgrades)
        .doc("Protocols that a connection may be upgraded to: in any version, or in one if it is named, as in \"SPDY/3.1\".")
        .key("cost", costs::of_route().or_none("the policies' own"))
        .sets(|table| &mut table.cost)
        .doc("Units that a request spends here under each policy, or those that a table names, instead of their `cost`.")
        .key("cors_origins", list_or_one(origin).or(Vec::new()))
        .sets(|table| &mut table.cors_origins)
        .doc("Origins whose pages may read what the gateway itself answers, refusals included, or \"*\" for all.")
        .key("default_policies", boolean().or(true))
        .sets(|table| &mut table.default_policies)
        .doc("Whether the top-level `default_policies` apply here.")
        .key("fewer_limits", boolean().or(false))
        .sets(|table| &mut table.fewer_limits)
        .doc("Whether the route is meant to limit less than a broader one; otherwise `check` warns.")
        .key("response_timeout", timeout())
        .sets(|table| &mut table.response_timeout)
        .doc("Time allowed until the response's head.")
        .key("body_timeout", silence)
        .sets(|table| &mut table.body_timeout)
        .doc("Time allowed without a byte of the response's body, or \"off\".")
        .key("max_body_bytes", size(BODY_BYTES).or_none("the listener's"))
        .sets(|table| &mut table.route.max_body_bytes)
        .doc("Most bytes in a request's body.")
        .key("response_format", word(display::RESPONSE_FORMATS).or(None))
        .sets(|table| &mut table.response_format)
        .doc("How the costs that a response's body reports are read, if its Content-Type is wrong or missing:")
        .key("stream_end", event.or_none("none"))
        .sets(|table| &mut table.stream_end)
        .doc("The name of an event after which a stream is complete, in addition to the data \"[DONE]\".")
        .key("encoded_slash", slash)
        .sets(|table| &mut table.route.encoded_slash)
        .doc("What to do with an encoded slash in the path:")
        .key("case_insensitive", boolean().or(false))
        .sets(|table| &mut table.case_insensitive)
        .doc("Whether literal segments match in any case.")
        .table("request_headers", request_headers())
        .table("response_headers", response_headers())
});

/// `[routes.request_headers]`
fn request_headers() -> TableSpec<RawRoute> {
    let name = text("x-debug", request_field, ToString::to_string).matching(TOKEN_PATTERN);
    let example = "{ x-api-version = \"2\" }";
    TableSpec::<RawRoute>::of("table", "[routes.request_headers]")
        .about("Changes to this route's request headers, made after the limits are decided.")
        .key("set", fields(example, request_field, field_value))
        .sets(|table| &mut table.request_headers_set)
        .doc("Headers to set for the upstream.")
        .key("remove", list(name))
        .sets(|table| &mut table.request_headers_removed)
        .doc("Headers to remove before the upstream gets the request.")
}

/// `[routes.response_headers]`
fn response_headers() -> TableSpec<RawRoute> {
    let example = "{ cache-control = \"no-store\" }";
    let name = text("server", answer_field, ToString::to_string).matching(TOKEN_PATTERN);
    TableSpec::<RawRoute>::of("table", "[routes.response_headers]")
        .about("Changes to this route's response headers.")
        .key("set", fields(example, answer_field, field_value))
        .sets(|table| &mut table.response_headers_set)
        .doc("Headers to set on responses, refusals included.")
        .key("remove", list(name))
        .sets(|table| &mut table.response_headers_removed)
        .doc("Headers to remove from responses.")
}
