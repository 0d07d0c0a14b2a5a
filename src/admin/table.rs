//! The calls of the admin port: one row for each method and path.

use futures_util::future::LocalBoxFuture;
use http::Method;

use super::caller::Access;
use super::reply::AdminReply;
use super::request::AdminRequest;
use super::{api, dashboard, health};

/// A call of the admin port: a row of the table.
pub(super) struct AdminCall {
    pub(super) method: Method,
    /// Whole path as it is sent, except for the files of the dashboard, which share one row.
    pub(super) path: &'static str,
    /// What the call does, and so whether it needs the token.
    pub(super) access: Access,
    /// Answers the call.
    pub(super) answer: Answering,
}

/// Answers a request, on the control thread.
type Answering = for<'r> fn(&'r AdminRequest) -> LocalBoxFuture<'r, AdminReply>;

/// Every call, by path.
pub(super) static CALLS: &[AdminCall] = &[
    get("/", Access::Open, |request| {
        Box::pin(async { dashboard::index(request) })
    }),
    get(dashboard::FILE, Access::Open, |request| {
        Box::pin(async { dashboard::page_file(request) })
    }),
    get("/livez", Access::Open, |_| {
        Box::pin(async { health::live() })
    }),
    get("/readyz", Access::Open, |request| {
        Box::pin(async { health::ready(request) })
    }),
    get("/metrics", Access::Open, |request| {
        Box::pin(health::scrape(request))
    }),
    get("/api/config", Access::NamesClients, |request| {
        Box::pin(api::shown(request, api::configuration))
    }),
    get("/api/connections", Access::Open, |request| {
        Box::pin(api::shown(request, api::connections))
    }),
    get("/api/events", Access::NamesClients, |request| {
        Box::pin(std::future::ready(api::events(request)))
    }),
    post("/api/explain", Access::NamesClients, |request| {
        Box::pin(api::explain(request))
    }),
    get("/api/openapi.json", Access::Open, |_| {
        Box::pin(async { api::openapi() })
    }),
    get("/api/keys", Access::NamesClients, |request| {
        Box::pin(std::future::ready(api::keys::list(request)))
    }),
    post("/api/keys/get", Access::NamesClients, |request| {
        Box::pin(api::keys::answer(api::keys::get(request)))
    }),
    post("/api/keys/set", Access::ChangesState, |request| {
        Box::pin(api::keys::answer(api::keys::set(request)))
    }),
    post("/api/keys/adjust", Access::ChangesState, |request| {
        Box::pin(api::keys::answer(api::keys::adjust(request)))
    }),
    post("/api/keys/grant", Access::ChangesState, |request| {
        Box::pin(api::keys::answer(api::keys::grant(request)))
    }),
    post("/api/keys/reset", Access::ChangesState, |request| {
        Box::pin(api::keys::answer(api::keys::reset(request)))
    }),
    post("/api/keys/block", Access::ChangesState, |request| {
        Box::pin(api::keys::answer(api::keys::block(request)))
    }),
    post("/api/keys/unblock", Access::ChangesState, |request| {
        Box::pin(api::keys::answer(api::keys::unblock(request)))
    }),
    get("/api/live", Access::NamesClients, |request| {
        Box::pin(api::live(request))
    }),
    get("/api/overview", Access::Open, |request| {
        Box::pin(api::shown(request, api::overview))
    }),
    get("/api/policies", Access::Open, |request| {
        Box::pin(api::shown(request, api::policies))
    }),
    get("/api/reload", Access::NamesClients, |request| {
        Box::pin(api::shown(request, api::last_reload))
    }),
    post("/api/reload", Access::ChangesState, |request| {
        Box::pin(api::reload(request))
    }),
    get("/api/reload/preview", Access::NamesClients, |request| {
        Box::pin(api::preview(request))
    }),
    get("/api/routes", Access::Open, |request| {
        Box::pin(api::shown(request, api::routes))
    }),
    get("/api/store", Access::Open, |request| {
        Box::pin(api::shown(request, api::store))
    }),
    get("/api/support-dump", Access::NamesClients, |request| {
        Box::pin(api::rendered(request, api::dump))
    }),
    get("/api/trace", Access::NamesClients, |request| {
        Box::pin(std::future::ready(api::trace(request)))
    }),
    post("/api/upgrade", Access::ChangesState, |request| {
        Box::pin(api::upgrade(request))
    }),
    get("/api/upstreams", Access::Open, |request| {
        Box::pin(api::shown(request, api::upstreams))
    }),
    get("/api/usage", Access::NamesClients, |request| {
        Box::pin(api::usage(request))
    }),
    get("/api/version", Access::Open, |request| {
        Box::pin(api::shown(request, api::version))
    }),
];

const fn get(path: &'static str, access: Access, answer: Answering) -> AdminCall {
    AdminCall {
        method: Method::GET,
        path,
        access,
        answer,
    }
}

const fn post(path: &'static str, access: Access, answer: Answering) -> AdminCall {
    AdminCall {
        method: Method::POST,
        path,
        access,
        answer,
    }
}

/// Yields the method and the path of every call, except HEAD.
pub fn calls() -> impl Iterator<Item = (&'static Method, &'static str)> {
    CALLS.iter().map(|call| (&call.method, call.path))
}

/// Lists the methods of a path, as `Allow` does.
pub(super) fn allow(path: &str) -> String {
    let calls = CALLS.iter().filter(|call| call.path == path);
    let methods = calls.map(|call| match call.method {
        Method::GET => "GET, HEAD",
        ref method => method.as_str(),
    });
    methods.collect::<Vec<_>>().join(", ")
}
