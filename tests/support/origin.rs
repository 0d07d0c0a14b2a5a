//! An origin that records every request's bytes and answers exactly what the test scripts.

use std::io::Result;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tollgate::clock::{Clock, Timestamp};

use super::PATIENCE;
use super::wire::{Body, Fields, Framing, Head, Wire};

/// A listening origin; it stops accepting when dropped.
#[derive(Debug)]
pub struct Origin {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

/// One request as it arrived at the origin.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Index of the connection, counted from 0 in the order of acceptance.
    pub connection: usize,
    /// Time at which the head was complete, by the origin's own clock (see [`Origin::now`]).
    pub at: Timestamp,
    pub head: Head,
    pub body: Vec<u8>,
    pub trailers: Fields,
    /// Whether the body was read to its end.
    pub is_complete: bool,
}

/// One request being answered: the script reads its body and writes bytes.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub head: Head,
    pub wire: &'a mut Wire,
    /// Index of the connection, counted from 0.
    pub connection: usize,
    /// Index of the request among all requests of the origin, counted from 0.
    pub index: usize,
    shared: &'a Shared,
}

/// What happens to the connection once the script is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Keep,
    Close,
}

#[derive(Debug)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
    stopped: AtomicBool,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Recorded>,
    accepted: usize,
    ended: usize,
}

impl Origin {
    /// Answers every request with these bytes, once its body has been read.
    pub fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::scripted(move |exchange| {
            exchange.read_body()?;
            exchange.wire.write(&response)?;
            Ok(After::Keep)
        })
    }

    /// Answers every request with 200 and the body `ok`.
    pub fn plain() -> Self {
        Self::answering(OK)
    }

    /// Answers as [`plain`](Self::plain) does, at an address that the test has chosen.
    pub fn plain_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("the address is free");
        Self::on(listener, |exchange| {
            exchange.read_body()?;
            exchange.wire.write(OK.as_bytes())?;
            Ok(After::Keep)
        })
    }

    /// Answers as [`plain`](Self::plain) does, once the gate is open.
    pub fn behind(gate: &Gate) -> Self {
        let gate = gate.clone();
        Self::scripted(move |exchange| {
            gate.wait();
            exchange.write(OK)?;
            Ok(After::Keep)
        })
    }

    /// Answers `/large` with more than all buffers hold, and other targets as [`plain`](Self::plain) does.
    pub fn endless() -> Self {
        Self::scripted(|exchange| {
            if exchange.target() == "/large" {
                exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
                let piece = vec![b'x'; 256 * 1024];
                loop {
                    exchange.write(&piece)?;
                }
            }
            exchange.read_body()?;
            exchange.write(OK)?;
            Ok(After::Keep)
        })
    }

    /// Reads requests and never answers; each connection stays until the gateway closes it.
    pub fn mute() -> Self {
        Self::scripted(|exchange| {
            exchange.until_closed();
            Ok(After::Close)
        })
    }

    /// Answers by `script`, which runs on a thread per connection, after each head.
    pub fn scripted(
        script: impl Fn(&mut Exchange) -> Result<After> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::on(listener, script)
    }

    fn on(
        listener: TcpListener,
        script: impl Fn(&mut Exchange) -> Result<After> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            clock: Clock::system(),
        });
        let script = Arc::new(script);
        thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for (connection, stream) in listener.incoming().enumerate() {
                    if shared.stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    shared.change(|log| log.accepted += 1);
                    let (shared, script) = (Arc::clone(&shared), Arc::clone(&script));
                    thread::spawn(move || {
                        // The way a connection ends is part of the script, so it does not fail the test.
                        let _ = serve(stream, connection, &shared, &*script);
                        shared.change(|log| log.ended += 1);
                    });
                }
            }
        });
        Self { address, shared }
    }

    /// Answers every request with the request's own body.
    pub fn echoing() -> Self {
        Self::scripted(|exchange| {
            exchange.read_body()?;
            let body = exchange.body();
            let length = body.len();
            exchange.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
            ))?;
            exchange.write(body)?;
            Ok(After::Keep)
        })
    }

    /// Returns the endpoint as written in gateway.toml.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the time by the clock that stamps requests.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.log().requests.clone()
    }

    /// Returns the targets of all requests so far, as the origin saw them.
    pub fn targets(&self) -> Vec<String> {
        let requests = self.requests();
        requests.iter().map(|x| x.target().to_owned()).collect()
    }

    /// Returns the only request so far; fails the test if there is not exactly one.
    #[track_caller]
    pub fn only_request(&self) -> Recorded {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "requests at the origin: {requests:#?}");
        requests.remove(0)
    }

    /// Returns how many connections were accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.log().accepted
    }

    /// Waits until `count` requests have arrived.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) {
        self.shared
            .wait("requests", |log| log.requests.len() >= count);
    }

    /// Waits until `count` connections have ended, on either side.
    #[track_caller]
    pub fn wait_for_ended(&self, count: usize) {
        self.shared.wait("connections", |log| log.ended >= count);
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // The acceptor checks the flag only when a connection arrives.
        let _ = TcpStream::connect(self.address);
    }
}

impl Recorded {
    /// Returns the request line's target.
    pub fn target(&self) -> &str {
        self.head.start.split(' ').nth(1).unwrap_or_default()
    }
}

impl Exchange<'_> {
    /// Returns the request line's target.
    pub fn target(&self) -> &str {
        self.head.start.split(' ').nth(1).unwrap_or_default()
    }

    /// Reads the body to its end and records it.
    pub fn read_body(&mut self) -> Result<()> {
        let mut body = Body::default();
        let read = match self.head.framing(Framing::Empty) {
            Ok(framing) => self.wire.read_body(framing, &mut body),
            Err(error) => Err(error),
        };
        self.shared.change(|log| {
            let request = &mut log.requests[self.index];
            request.body = body.bytes;
            request.trailers = body.trailers;
            request.is_complete = read.is_ok();
        });
        read
    }

    /// Returns the body, as far as it was read.
    pub fn body(&self) -> Vec<u8> {
        self.shared.log().requests[self.index].body.clone()
    }

    /// Writes raw bytes.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.wire.write(bytes.as_ref())
    }

    /// Reads until the gateway closes the connection.
    pub fn until_closed(&mut self) {
        // However the connection ends, it has ended.
        let _ = self.wire.read_to_end();
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no script panics with the log held")
    }

    fn change<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let result = change(&mut self.log());
        self.changed.notify_all();
        result
    }

    #[track_caller]
    fn wait(&self, what: &str, is_enough: impl Fn(&Log) -> bool) {
        let (log, wait) = self
            .changed
            .wait_timeout_while(self.log(), PATIENCE, |log| !is_enough(log))
            .expect("no script panics with the log held");
        assert!(!wait.timed_out(), "waited in vain for {what}: {log:#?}");
    }
}

fn serve(
    stream: TcpStream,
    connection: usize,
    shared: &Shared,
    script: &dyn Fn(&mut Exchange) -> Result<After>,
) -> Result<()> {
    let mut wire = Wire::new(stream);
    while let Some(head) = wire.read_head()? {
        let at = shared.clock.now();
        let index = shared.change(|log| {
            log.requests.push(Recorded {
                connection,
                at,
                head: head.clone(),
                body: Vec::new(),
                trailers: Vec::new(),
                is_complete: false,
            });
            log.requests.len() - 1
        });
        let mut exchange = Exchange {
            head,
            wire: &mut wire,
            connection,
            index,
            shared,
        };
        if script(&mut exchange)? == After::Close {
            break;
        }
    }
    Ok(())
}

/// An address that refuses connections as long as this lives.
#[derive(Debug)]
pub struct Refusing {
    socket: Socket,
}

impl Refusing {
    /// Binds a port and does not listen on it.
    pub fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("sockets are available");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("a free port");
        Self { socket }
    }

    /// Returns the endpoint as written in gateway.toml.
    pub fn url(&self) -> String {
        let address = self.socket.local_addr().expect("a bound socket");
        format!("http://{}", address.as_socket().expect("an IPv4 address"))
    }
}

/// An address at which no connection is ever established: the queue is full, so the kernel drops new ones.
#[derive(Debug)]
pub struct Unreachable {
    socket: Socket,
    _queued: TcpStream,
}

impl Unreachable {
    /// Listens without accepting and fills the queue.
    pub fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("sockets are available");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(&any.into()).expect("a free port");
        socket.listen(0).expect("a bound socket");
        let address = socket.local_addr().expect("a bound socket");
        let address = address.as_socket().expect("an IPv4 address");
        // A queue of length 0 has room for one connection.
        let queued = TcpStream::connect_timeout(&address, PATIENCE).expect("room for one");
        TcpStream::connect_timeout(&address, DROPPED).expect_err("no room for another");
        Self {
            socket,
            _queued: queued,
        }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        let address = self.socket.local_addr().expect("a bound socket");
        address.as_socket().expect("an IPv4 address")
    }

    /// Returns the endpoint as written in gateway.toml.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }
}

/// How long a connection attempt waits before the test takes it as dropped; the kernel sends no refusal.
const DROPPED: Duration = Duration::from_millis(50);

/// A gate at which one thread waits until another opens it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Lets all threads through from now on.
    pub fn open(&self) {
        *self.0.0.lock().expect("nothing panics with a gate held") = true;
        self.0.1.notify_all();
    }

    /// Waits until the gate is open; fails the test after [`PATIENCE`].
    pub fn wait(&self) {
        let (flag, opened) = &*self.0;
        let open = flag.lock().expect("nothing panics with a gate held");
        let waited = opened.wait_timeout_while(open, PATIENCE, |is_open| !*is_open);
        let (open, _) = waited.expect("nothing panics with a gate held");
        assert!(*open, "the gate never opened");
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
