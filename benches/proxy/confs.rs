//! The configurations of the servers.
//!
//! The peers' are what an expert would write for this work: one worker or thread, connections kept
//! on both sides, the same fields sent to the origin, and no log unless the log is what is
//! measured.

use std::fmt::Write as _;

use super::support::servers::{
    CONNECTIONS_MAX, NGINX_FIELDS, haproxy_frame, nginx_frame, nginx_upstream,
};

/// A quota that is never used up.
const QUOTA: &str = "1000000000 per minute";

/// nginx with a quota that is never used up, and one that always is.
pub fn nginx(port: u16, origin: u16) -> String {
    let open = "limit_req zone=open burst=1000000 nodelay;";
    let server = nginx_server(port, origin, "", open, "limit_req zone=shut;");
    let http = format!(
        "limit_req_zone $binary_remote_addr zone=open:10m rate=1000000r/s;
         limit_req_zone $binary_remote_addr zone=shut:10m rate=1r/m;
         limit_req_status 429;
         {server}"
    );
    nginx_frame("", CONNECTIONS_MAX, &http)
}

/// nginx with an access log and two quotas; `buffer` says how lines are kept before they are written.
pub fn nginx_logged(port: u16, origin: u16, buffer: &str) -> String {
    let log = format!("access_log FOLDER/NAME.access combined {buffer};");
    let open =
        "limit_req zone=second burst=1000000 nodelay; limit_req zone=minute burst=1000000 nodelay;";
    let server = nginx_server(port, origin, &log, open, "return 404;");
    let http = format!(
        "limit_req_zone $binary_remote_addr zone=second:10m rate=1000000r/s;
         limit_req_zone $binary_remote_addr zone=minute:10m rate=50000000r/m;
         limit_req_status 429;
         {server}"
    );
    nginx_frame("", CONNECTIONS_MAX, &http)
}

/// nginx with its counters in Redis (`limiter.lua`, `window.lua`).
pub fn nginx_lua(port: u16, origin: u16, modules: &str) -> String {
    let open = "access_by_lua_block { limiter.check('open', 1000000000, 60) }";
    let shut = "access_by_lua_block { limiter.check('shut', 1, 3600) }";
    let server = nginx_server(port, origin, "", open, shut);
    let http = format!(
        "lua_package_path 'FOLDER/?.lua;/usr/share/lua/5.1/?.lua;;';
         init_by_lua_block {{ limiter = require 'limiter' }}
         {server}"
    );
    let modules = format!(
        "load_module {modules}/ndk_http_module.so; load_module {modules}/ngx_http_lua_module.so;"
    );
    nginx_frame(&modules, CONNECTIONS_MAX, &http)
}

fn nginx_server(port: u16, origin: u16, log: &str, open: &str, shut: &str) -> String {
    let upstream = nginx_upstream(&format!("127.0.0.1:{origin}"));
    format!(
        "{upstream}
         server {{
             listen 127.0.0.1:{port} backlog=4096;
             {log}
             {NGINX_FIELDS}
             location /open {{ {open} proxy_pass http://origin; }}
             location /shut {{ {shut} proxy_pass http://origin; }}
         }}"
    )
}

/// HAProxy with the same two quotas in stick tables.
pub fn haproxy(port: u16, origin: u16) -> String {
    let frontend = format!(
        "bind 127.0.0.1:{port} backlog 4096
         acl shut path /shut
         http-request track-sc0 src table shut if shut
         http-request track-sc0 src table open if !shut
         http-request deny deny_status 429 if shut {{ sc_http_req_rate(0) gt 1 }}
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}
         http-request set-header X-Forwarded-Proto http"
    );
    let tables = "backend open
             stick-table type ip size 100k expire 60s store http_req_rate(60s)
         backend shut
             stick-table type ip size 100k expire 1h store http_req_rate(1h)";
    haproxy_frame("", &frontend, tables, origin)
}

/// What differs between the configurations of Tollgate.
#[derive(Default)]
pub struct Tollgate {
    pub port: u16,
    pub admin: u16,
    pub origin: u16,
    /// Lines of the table `[log]`.
    pub log: String,
    /// Lines of the table `[store]`.
    pub store: String,
    /// The tables of policies and routes.
    pub routes: String,
}

impl Tollgate {
    pub fn conf(&self) -> String {
        let Self {
            port,
            admin,
            origin,
            log,
            store,
            routes,
        } = self;
        format!(
            "workers = 1
             [listeners.public]
             address = '127.0.0.1:{port}'
             [admin]
             address = '127.0.0.1:{admin}'
             [log]
             {log}
             [store]
             {store}
             [upstreams.origin]
             endpoints = ['http://127.0.0.1:{origin}']
             {routes}"
        )
    }
}

/// One policy with a quota that is never used up, and one with a quota that always is.
///
/// The policies are closed: if their store does not answer, that is an error, and is counted.
pub fn limited(policy: &str) -> String {
    [("open", QUOTA), ("shut", "1 per hour")]
        .map(|(name, quota)| {
            format!(
                "[policies.{name}]
                 quota = '{quota}'
                 on_store_failure = 'closed'
                 {policy}
                 [[routes]]
                 path = '/{name}'
                 upstream = 'origin'
                 policies = ['{name}']\n"
            )
        })
        .concat()
}

pub fn unlimited() -> String {
    "[[routes]]\n path = '/open'\n upstream = 'origin'\n".to_owned()
}

/// Two policies, with three quotas in all.
pub fn three_quotas() -> String {
    format!(
        "[policies.short]
         quota = ['{QUOTA}', '100000000000 per hour']
         [policies.long]
         quota = '1000000000000 per day'
         [[routes]]
         path = '/open'
         upstream = 'origin'
         policies = ['short', 'long']\n"
    )
}

/// This many routes, which share this many policies.
pub fn routes(routes: usize, policies: usize) -> String {
    let mut text = String::new();
    for policy in 0..policies {
        let _ = writeln!(text, "[policies.p{policy}]\n quota = '{QUOTA}'");
    }
    for route in 0..routes {
        let policy = route % policies;
        let _ = writeln!(
            text,
            "[[routes]]\n path = '/r{route}'\n upstream = 'origin'\n policies = ['p{policy}']"
        );
    }
    text
}
