//! A proxy made with Pingora and pingora-limits, with which `cargo bench --bench proxy` compares Tollgate.
//!
//! `tollgate-bench-pingora LISTEN ORIGIN`: one thread, connections kept on both sides. A client's
//! address has a quota that is never used up for `/open`, and one request per hour for anything else.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::modules::http::HttpModules;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_limits::rate::Rate;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A quota, counted as in the documentation of pingora-limits.
struct Quota {
    seen: Rate,
    units_max: isize,
}

impl Quota {
    fn new(units_max: isize, window: Duration) -> Self {
        let seen = Rate::new(window);
        Self { seen, units_max }
    }

    fn admits(&self, client: IpAddr) -> bool {
        self.seen.observe(&client, 1) <= self.units_max
    }
}

struct Proxy {
    origin: HttpPeer,
    open: Quota,
    shut: Quota,
    refusal: ResponseHeader,
}

impl Proxy {
    fn new(origin: SocketAddr) -> Self {
        let mut origin = HttpPeer::new(origin, false, String::new());
        origin.options.connection_timeout = Some(Duration::from_secs(3));
        origin.options.read_timeout = Some(UPSTREAM_TIMEOUT);
        origin.options.idle_timeout = Some(UPSTREAM_TIMEOUT);
        let mut refusal = ResponseHeader::build(429, None).expect("a status");
        refusal.set_content_length(0).expect("a length");
        Self {
            origin,
            open: Quota::new(1_000_000_000, Duration::from_mins(1)),
            shut: Quota::new(1, Duration::from_hours(1)),
            refusal,
        }
    }
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    /// Adds no modules: Pingora's default one compresses.
    fn init_downstream_modules(&self, _modules: &mut HttpModules) {}

    async fn request_filter(&self, session: &mut Session, _ctx: &mut ()) -> Result<bool> {
        let quota = match session.req_header().uri.path() {
            "/open" => &self.open,
            _ => &self.shut,
        };
        if quota.admits(client(session)?) {
            return Ok(false);
        }
        let refusal = Box::new(self.refusal.clone());
        session.write_response_header(refusal, true).await?;
        Ok(true)
    }

    async fn upstream_peer(&self, _session: &mut Session, _ctx: &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(self.origin.clone()))
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        _ctx: &mut (),
    ) -> Result<()> {
        request.insert_header("X-Forwarded-For", client(session)?.to_string())?;
        request.insert_header("X-Forwarded-Proto", "http")
    }
}

fn client(session: &Session) -> Result<IpAddr> {
    let address = session.client_addr().and_then(|address| address.as_inet());
    let address = address.ok_or_else(|| Error::new(ErrorType::InternalError))?;
    Ok(address.ip())
}

fn main() {
    let mut addresses = std::env::args().skip(1).map(|address| {
        let address: SocketAddr = address.parse().expect("an address and a port");
        address
    });
    let (Some(listen), Some(origin)) = (addresses.next(), addresses.next()) else {
        panic!("tollgate-bench-pingora LISTEN ORIGIN");
    };
    let conf = ServerConf {
        threads: 1,
        // A single thread has nobody to steal from, and the runtime without stealing is cheaper.
        work_stealing: false,
        upstream_keepalive_pool_size: 256,
        // The proxy is told to end when the benchmark ends.
        grace_period_seconds: Some(0),
        graceful_shutdown_timeout_seconds: Some(0),
        ..ServerConf::default()
    };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut service = http_proxy_service(&Arc::clone(&server.configuration), Proxy::new(origin));
    service.add_tcp(&listen.to_string());
    server.add_service(service);
    server.run_forever();
}

const UPSTREAM_TIMEOUT: Duration = Duration::from_mins(1);
