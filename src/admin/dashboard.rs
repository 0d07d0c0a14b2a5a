//! The dashboard: one page, embedded in the binary. It holds no data of its own and asks the API for everything, like
//! any other client, so it is served without a token.

use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use super::health;
use super::reply::AdminReply;
use super::request::AdminRequest;
use crate::config::value::did_you_mean;

/// A file that the page consists of.
struct PageFile {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

macro_rules! page_files {
    ($($folder:literal / $name:literal $content_type:ident)*) => {
        &[$(PageFile {
            name: $name,
            content_type: $content_type,
            content: include_bytes!(concat!("../../", $folder, "/", $name)),
        }),*]
    };
}

/// Every file except the page itself.
static FILES: &[PageFile] = page_files![
    "src/admin/dashboard" / "actions.js" JAVASCRIPT
    "src/admin/dashboard" / "api.js" JAVASCRIPT
    "src/admin/dashboard" / "app.js" JAVASCRIPT
    "src/admin/dashboard" / "catalog.js" JAVASCRIPT
    "src/admin/dashboard" / "clients.js" JAVASCRIPT
    "src/admin/dashboard" / "dashboard.css" CSS
    "src/admin/dashboard" / "dom.js" JAVASCRIPT
    "src/admin/dashboard" / "explain.js" JAVASCRIPT
    "src/admin/dashboard" / "format.js" JAVASCRIPT
    "src/admin/dashboard" / "headline.js" JAVASCRIPT
    "src/admin/dashboard" / "history.js" JAVASCRIPT
    "src/admin/dashboard" / "keys.js" JAVASCRIPT
    "src/admin/dashboard" / "live.js" JAVASCRIPT
    "src/admin/dashboard" / "now.js" JAVASCRIPT
    "src/admin/dashboard" / "plots.js" JAVASCRIPT
    "src/admin/dashboard" / "policies.js" JAVASCRIPT
    "src/admin/dashboard" / "reload.js" JAVASCRIPT
    "src/admin/dashboard" / "rows.js" JAVASCRIPT
    "src/admin/dashboard" / "status.js" JAVASCRIPT
    "src/admin/dashboard" / "token.js" JAVASCRIPT
    "src/admin/dashboard" / "trace.js" JAVASCRIPT
    "src/admin/dashboard" / "views.js" JAVASCRIPT
    "third_party/uplot" / "uPlot.iife.min.js" JAVASCRIPT
    "third_party/uplot" / "uPlot.min.css" CSS
];

/// Answers a browser with the page, and other clients with a list of the port's paths.
pub(super) fn index(request: &AdminRequest) -> AdminReply {
    if request.accepts("text/html") {
        file("text/html; charset=utf-8", INDEX)
    } else {
        health::index()
    }
}

/// Answers with a file of the page.
pub(super) fn page_file(request: &AdminRequest) -> AdminReply {
    let name = request.head.uri.path().strip_prefix(FOLDER);
    let name = name.unwrap_or_default();
    if let Some(found) = FILES.iter().find(|file| file.name == name) {
        return file(found.content_type, found.content);
    }
    let hint = did_you_mean(name, FILES.iter().map(|file| file.name));
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    let detail = format!("The dashboard has no such file{hint}");
    AdminReply::problem(StatusCode::NOT_FOUND, detail)
}

fn file(content_type: &'static str, content: &'static [u8]) -> AdminReply {
    let mut reply = AdminReply::new(StatusCode::OK, content_type, content);
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        reply.fields.push((name, HeaderValue::from_static(value)));
    }
    reply
}

/// Path under which the page's files are.
pub(super) const FOLDER: &str = "/dashboard/";
/// Path of all these files in the table of calls.
pub(super) const FILE: &str = "/dashboard/{file}";

/// Content security policy of the page: it may load from this port, and do nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

const INDEX: &[u8] = include_bytes!("dashboard/index.html");
