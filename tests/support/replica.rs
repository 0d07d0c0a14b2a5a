//! One of several equivalent origins: it answers with its name, counts requests, and can be killed and revived.

use std::io::Result;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Config;
use super::process::free_address;
use super::wire::{Body, Framing, Head, Wire};

/// An origin; it is killed when dropped.
#[derive(Debug)]
pub struct Replica {
    pub name: String,
    pub address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

/// What a replica does with requests other than health checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Answers with 200 and its name.
    #[default]
    Answers,
    /// Answers with the given status and its name.
    AnswersWith(u16),
    /// Closes the connection.
    HangsUp,
    /// Holds the request until the replica is given another manner.
    Holds,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    manner: Manner,
    /// Status of answers to health checks; `None` leaves checks unanswered.
    health: Option<u16>,
    is_dead: bool,
    requests: usize,
    holding: usize,
    checks: Vec<Head>,
    open: Vec<TcpStream>,
}

impl Replica {
    /// Starts `count` replicas named `a`, `b` and so on.
    pub fn several(count: usize) -> Vec<Self> {
        let names = ('a'..='z').take(count);
        names.map(|name| Self::start(&name.to_string())).collect()
    }

    /// Starts a healthy replica.
    pub fn start(name: &str) -> Self {
        let mut replica = Self {
            name: name.to_owned(),
            // No other test is given this port while the replica is dead.
            address: free_address(),
            shared: Arc::default(),
            acceptor: None,
        };
        replica.healthy_as(Some(200));
        replica.revive();
        replica
    }

    /// Returns the endpoint as written in gateway.toml.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns how many requests other than health checks have come.
    pub fn requests(&self) -> usize {
        self.shared.state().requests
    }

    /// Returns how many requests the replica holds.
    pub fn holding(&self) -> usize {
        self.shared.state().holding
    }

    /// Returns the heads of the health checks that have come.
    pub fn checks(&self) -> Vec<Head> {
        self.shared.state().checks.clone()
    }

    /// Sets what the replica does with requests from now on, including those that it holds.
    pub fn behave(&self, manner: Manner) {
        self.shared.change(|state| state.manner = manner);
    }

    /// Sets the status of answers to health checks from now on; `None` leaves checks unanswered.
    pub fn healthy_as(&self, status: Option<u16>) {
        self.shared.change(|state| state.health = status);
    }

    /// Ends all connections and refuses new ones.
    pub fn kill(&mut self) {
        let open = self.shared.change(|state| {
            state.is_dead = true;
            std::mem::take(&mut state.open)
        });
        // The acceptor checks the flag only when a connection arrives.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("accepting does not panic");
        }
        for stream in open {
            // The gateway may have ended it first.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Accepts connections again, at the same address.
    pub fn revive(&mut self) {
        self.shared.change(|state| state.is_dead = false);
        let listener = TcpListener::bind(self.address).expect("a port that nobody else is given");
        let (shared, name) = (Arc::clone(&self.shared), self.name.clone());
        self.acceptor = Some(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Ok(handle) = stream.try_clone() else {
                    continue;
                };
                let is_dead = shared.change(|state| {
                    state.open.push(handle);
                    state.is_dead
                });
                if is_dead {
                    return;
                }
                let (shared, name) = (Arc::clone(&shared), name.clone());
                thread::spawn(move || {
                    let mut wire = Wire::new(stream);
                    // However the exchange ends, the connection is closed.
                    let _ = serve(&mut wire, &shared, &name);
                    wire.close();
                });
            }
        }));
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Begins a file with an upstream `replicas` of these endpoints with these weights, `lines`, and a route `/*` to it.
pub fn balanced(replicas: &[Replica], weights: &[u32], lines: &str) -> Config {
    let endpoints = replicas.iter().zip(weights.iter().cycle());
    let endpoints = endpoints
        .map(|(replica, weight)| format!("{{ url = '{}', weight = {weight} }}", replica.url()));
    let endpoints: Vec<_> = endpoints.collect();
    Config::to("builtin:echo").with(&format!(
        "[upstreams.replicas]\nendpoints = [{}]\n{lines}\n\
         [[routes]]\npath = '/*'\nupstream = 'replicas'",
        endpoints.join(", ")
    ))
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("nothing panics with a replica's state held")
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_all();
        changed
    }

    /// Waits while requests are held, and returns what to do with them then.
    fn manner(&self) -> Manner {
        let is_held = |state: &mut State| state.manner == Manner::Holds && !state.is_dead;
        let mut state = self.state();
        if !is_held(&mut state) {
            return state.manner;
        }
        state.holding += 1;
        let waited = self.changed.wait_timeout_while(state, HELD_MAX, is_held);
        let (mut state, _) = waited.expect("nothing panics with a replica's state held");
        state.holding -= 1;
        state.manner
    }
}

fn serve(wire: &mut Wire, shared: &Shared, name: &str) -> Result<()> {
    wire.patience(2 * HELD_MAX);
    while let Some(head) = wire.read_head()? {
        let framing = head.framing(Framing::Empty)?;
        wire.read_body(framing, &mut Body::default())?;
        let target = head.start.split(' ').nth(1).unwrap_or_default();
        let status = if target.starts_with("/health") {
            shared.change(|state| {
                state.checks.push(head);
                state.health
            })
        } else {
            shared.change(|state| state.requests += 1);
            match shared.manner() {
                Manner::Answers => Some(200),
                Manner::AnswersWith(status) => Some(status),
                Manner::HangsUp | Manner::Holds => return Ok(()),
            }
        };
        let Some(status) = status else {
            wire.read_to_end()?;
            return Ok(());
        };
        let length = name.len();
        let answer = format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{name}");
        wire.write(answer.as_bytes())?;
    }
    Ok(())
}

/// Longest time that a request is held; no test takes that long.
const HELD_MAX: Duration = Duration::from_mins(1);
