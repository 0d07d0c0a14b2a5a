//! The file's top level, `[admin]` and `[log]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use http::HeaderName;
use tracing::Level;

use super::bounds::UP_TO_A_DAY;
use super::files::admin_token;
use super::kind::{ValueSpec, boolean, duration, free_text, list, number, text, word};
use super::{Effect, TableSpec};
use crate::access_log::AccessLog;
use crate::config::display;
use crate::config::file::Top;
use crate::config::value::{
    ADMIN_PATTERN, NETWORK_PATTERN, TOKEN_PATTERN, ValueError, admin_address, network, own_field,
};
use crate::request::{ClientNames, X_REQUEST_ID};
use crate::snapshot::{Admin, Log, RateLimitHeaders};

/// The file's top level: the keys before the first table.
pub static TOP: LazyLock<TableSpec<Top>> = LazyLock::new(|| {
    let headers = word(display::RATELIMIT_HEADERS).or(RateLimitHeaders::Ietf);
    let seconds = |seconds| duration(UP_TO_A_DAY).or(Duration::from_secs(seconds));
    let network = text("10.0.0.0/8", network, ToString::to_string).matching(NETWORK_PATTERN);
    let networks = list(network).plain(|nets| nets, |nets| display::list(nets));
    TableSpec::<Top>::of("file", "the file's top level")
        .about("The configuration of Tollgate.")
        .key("workers", number(1..=1024).or_none("one per core"))
        .sets(|top| &mut top.general.workers)
        .doc("Worker threads.")
        .effect(Effect::NeedsRestart)
        .key("default_policies", list(free_text("per-client")))
        .sets(|top| &mut top.default_policies)
        .doc("Policies applied to every route before its own, unless the route sets `default_policies = false`.")
        .key(
            "preflight_policies",
            list(free_text("per-ip")).or_none("none"),
        )
        .sets(|top| &mut top.preflight_policies)
        .doc("Policies that decide CORS preflights, which then take the route of the request that they announce.")
        .key("ratelimit_headers", headers)
        .sets(|top| &mut top.general.ratelimit_headers)
        .doc("Rate-limit headers on responses:")
        .key("request_id", request_id())
        .sets(|top| &mut top.general.request_id)
        .doc("The header that carries each request's id, to the upstream and back to the client, or \"off\".")
        .key("shutdown_delay", seconds(0))
        .sets(|top| &mut top.general.shutdown_delay)
        .doc("After SIGTERM, how long the gateway reports not ready but still accepts connections.")
        .key("shutdown_grace", seconds(30))
        .sets(|top| &mut top.general.shutdown_grace)
        .doc("After that, how long requests in progress may take to finish.")
        .key("watch", boolean().or(false))
        .sets(|top| &mut top.general.watch)
        .doc("Whether to reload when this file, or another one that it names, changes.")
        .key("include", list(free_text("conf.d/*.toml")))
        .sets(|top| &mut top.include)
        .doc("Files that are read as if they stood at the end of this one, in the order of their names.")
        .key("debug_from", networks.or(Vec::new()))
        .sets(|top| &mut top.general.debug_from)
        .doc("Addresses and networks of callers whose responses say in Tollgate-Decision how the request was decided.")
        .tables("listeners upstreams policies routes store jwt admin log")
});

/// `request_id`
fn request_id() -> ValueSpec<Option<HeaderName>> {
    let default = X_REQUEST_ID;
    let usual = default.clone();
    let read = move |text: &str| match text {
        "off" => Ok(None),
        // The constant has no reference count, which all workers would write to.
        text if text.eq_ignore_ascii_case(usual.as_str()) => Ok(Some(usual.clone())),
        text => own_field(text).map(Some),
    };
    let spell =
        |name: &Option<HeaderName>| name.as_ref().map_or("off".to_owned(), ToString::to_string);
    text("x-request-id", read, spell)
        .matching(TOKEN_PATTERN)
        .or(Some(default))
}

/// `[admin]`
pub static ADMIN: LazyLock<TableSpec<Admin>> = LazyLock::new(|| {
    let off =
        |address: &Option<SocketAddr>| address.map_or("off".to_owned(), |value| value.to_string());
    let address = text("127.0.0.1:8090", admin_address, off).matching(ADMIN_PATTERN);
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8090));
    TableSpec::<Admin>::of("table", "[admin]")
        .about("Health, metrics and an API for operators.")
        .key("address", address.or(Some(default)))
        .sets(|admin| &mut admin.address)
        .doc("The address to listen on, or \"off\".")
        .effect(Effect::NeedsRestart)
        .key("token", admin_token("${file:admin_token}"))
        .sets(|admin| &mut admin.token)
        .doc("The token required to change anything through this port.")
});

/// `[log]`
pub static LOG: LazyLock<TableSpec<Log>> = LazyLock::new(|| {
    let file = |example, hint: &'static str| {
        let path = move |text: &str| match text {
            "" => Err(ValueError::new("is not a path", "a path").hint(hint)),
            path => Ok(PathBuf::from(path)),
        };
        text(example, path, |path: &PathBuf| path.display().to_string())
    };
    let events = file(
        "/var/log/tollgate.log",
        "for standard output leave `file` out",
    );
    let access = file(
        "/var/log/tollgate-access.log",
        "to log requests where events go leave `access_file` out",
    );
    let format = word(display::LOG_FORMATS).or_none("text on a terminal, otherwise json");
    TableSpec::<Log>::of("table", "[log]")
        .about("Events and requests.")
        .key("level", word(display::LEVELS).or(Level::INFO))
        .sets(|log| &mut log.level)
        .doc("The lowest level to log:")
        .key("format", format)
        .sets(|log| &mut log.format)
        .doc("\"text\" or \"json\".")
        .key("access", word(display::ACCESS_LOGS).or(AccessLog::All))
        .sets(|log| &mut log.access)
        .doc("Which requests are logged:")
        .key("file", events.or_none("standard output"))
        .sets(|log| &mut log.file)
        .doc("The log file.")
        .key("access_file", access.or_none("where events go"))
        .sets(|log| &mut log.access_file)
        .doc("A file for the access log alone.")
        .key(
            "clients",
            word(display::CLIENT_NAMES).or(ClientNames::Short),
        )
        .sets(|log| &mut log.clients)
        .doc("How the log shows clients that a header, a cookie or the like identifies:")
});

impl Default for Log {
    fn default() -> Self {
        Self {
            level: Level::INFO,
            format: None,
            access: AccessLog::default(),
            file: None,
            access_file: None,
            clients: ClientNames::default(),
        }
    }
}
