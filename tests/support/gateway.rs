//! Gateways inside the test process: a file put together from its parts, and a clock that the test moves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tollgate::clock::{Clock, Micros, Timestamp};
use tollgate::gateway::{Gateway, StartError};

/// Time at which manual clocks start: a midnight, so every window that divides a day begins here.
pub const START: Timestamp = Timestamp(1_700_006_400_000_000);

/// A gateway that runs in this process, and its clock.
#[derive(Debug)]
pub struct Running {
    pub gateway: Gateway,
    pub clock: Clock,
    pub public: SocketAddr,
}

impl Running {
    /// Returns the address of the listener of that name.
    #[track_caller]
    pub fn address(&self, listener: &str) -> SocketAddr {
        let address = self.gateway.address(listener);
        address.expect("it is in the file")
    }
}

/// A configuration file under construction; lines go to the table that the method names.
#[derive(Clone, Debug)]
pub struct Config {
    top: String,
    listener: String,
    address: String,
    admin: String,
    admin_lines: String,
    upstream: String,
    rest: String,
}

/// Moves a manual clock forward by a step every few milliseconds until dropped.
///
/// For deadlines that start at a moment which the test cannot observe.
#[derive(Debug)]
pub struct Flow {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Returns a span of `seconds`.
pub const fn secs(seconds: u64) -> Micros {
    Micros::from_secs(seconds)
}

/// Starts a gateway at [`START`].
#[track_caller]
pub fn start(config: &Config) -> Running {
    start_at(config, START)
}

/// Starts a gateway at the given time.
#[track_caller]
pub fn start_at(config: &Config, time: Timestamp) -> Running {
    start_text_at(&config.text(), time)
}

/// Starts a gateway with that file at [`START`].
#[track_caller]
pub fn start_text(text: &str) -> Running {
    start_text_at(text, START)
}

#[track_caller]
fn start_text_at(text: &str, time: Timestamp) -> Running {
    let clock = Clock::manual(time);
    let gateway = match Gateway::start(text, clock.clone()) {
        Ok(gateway) => gateway,
        Err(StartError::File(report)) => {
            panic!("mistakes:\n{}", report.render("test", text, false))
        }
        Err(error) => panic!("the gateway does not start: {error}"),
    };
    let public = gateway.address("public").expect("it is in the file");
    Running {
        gateway,
        clock,
        public,
    }
}

impl Config {
    /// Begins with the upstream `api` at that endpoint, two workers, no admin port and no request
    /// ids, because those differ from run to run.
    pub fn to(endpoint: impl AsRef<str>) -> Self {
        Self {
            top: "workers = 2\nrequest_id = 'off'\n".to_owned(),
            listener: String::new(),
            address: "127.0.0.1:0".to_owned(),
            admin: "off".to_owned(),
            admin_lines: String::new(),
            upstream: format!("endpoints = [{:?}]\n", endpoint.as_ref()),
            rest: String::new(),
        }
    }

    /// Begins with one limited route: `/*`, with a policy `p` of these lines.
    ///
    /// Timeouts are a day long, so that a test may move the clock by what a quota takes to return.
    pub fn limited(endpoint: impl AsRef<str>, policy: &str) -> Self {
        Self::to(endpoint)
            .listener("header_timeout = '24h'\nidle_timeout = '24h'\nbody_timeout = '24h'")
            .upstream("connect_timeout = '24h'\nresponse_timeout = '24h'\nbody_timeout = '24h'")
            .policy("p", policy)
            .route("/*", "policies = ['p']")
    }

    /// Gives each request an id in the usual field.
    pub fn with_ids(mut self) -> Self {
        self.top = self.top.replace("request_id = 'off'\n", "");
        self
    }

    /// Runs one worker, for tests that must know which pool a request uses.
    pub fn one_worker(mut self) -> Self {
        self.top = self.top.replace("workers = 2", "workers = 1");
        self
    }

    /// Adds top-level lines.
    pub fn top(mut self, lines: &str) -> Self {
        line(&mut self.top, lines);
        self
    }

    /// Adds lines to the listener `public`.
    pub fn listener(mut self, lines: &str) -> Self {
        line(&mut self.listener, lines);
        self
    }

    /// Sets the address of the listener `public`.
    pub fn address(mut self, address: &str) -> Self {
        address.clone_into(&mut self.address);
        self
    }

    /// Sets the address of the admin port.
    pub fn admin(mut self, address: &str) -> Self {
        address.clone_into(&mut self.admin);
        self
    }

    /// Gives the admin port a token.
    pub fn admin_token(mut self, token: &str) -> Self {
        line(&mut self.admin_lines, &format!("token = '{token}'"));
        self
    }

    /// Adds lines to the upstream `api`.
    pub fn upstream(mut self, lines: &str) -> Self {
        line(&mut self.upstream, lines);
        self
    }

    /// Replaces the endpoints of the upstream `api`.
    pub fn endpoints(mut self, endpoints: &[String]) -> Self {
        let others = self.upstream.split_once('\n').map_or("", |(_, rest)| rest);
        self.upstream = format!("endpoints = {endpoints:?}\n{others}");
        self
    }

    /// Adds a policy with those lines.
    pub fn policy(self, name: &str, lines: &str) -> Self {
        self.with(&format!("[policies.{name}]\n{lines}"))
    }

    /// Adds a route to the upstream `api` with those lines.
    pub fn route(self, path: &str, lines: &str) -> Self {
        self.with(&format!(
            "[[routes]]\npath = '{path}'\nupstream = 'api'\n{lines}"
        ))
    }

    /// Adds an upstream, and a route to it with those lines.
    pub fn beside(self, name: &str, endpoint: &str, path: &str, lines: &str) -> Self {
        self.with(&format!(
            "[upstreams.{name}]\nendpoints = ['{endpoint}']\n\
             [[routes]]\npath = '{path}'\nupstream = '{name}'\n{lines}"
        ))
    }

    /// Adds whole tables to the file.
    pub fn with(mut self, tables: &str) -> Self {
        line(&mut self.rest, tables);
        self
    }

    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let Self {
            top,
            listener,
            address,
            admin,
            admin_lines,
            upstream,
            rest,
        } = self;
        format!(
            "{top}\n[listeners.public]\naddress = \"{address}\"\n{listener}\n\
             [admin]\naddress = \"{admin}\"\n{admin_lines}\n[upstreams.api]\n{upstream}\n{rest}"
        )
    }
}

fn line(table: &mut String, text: &str) {
    table.push_str(text);
    table.push('\n');
}

impl Flow {
    /// Starts moving `clock` by `step`.
    pub fn of(clock: &Clock, step: Micros) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (clock, stopped) = (clock.clone(), Arc::clone(&stopped));
            move || {
                while !stopped.load(Ordering::SeqCst) {
                    clock.advance(step);
                    thread::sleep(Duration::from_millis(20));
                }
            }
        });
        Self {
            stopped,
            thread: Some(thread),
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("moving a clock does not fail");
        }
    }
}
