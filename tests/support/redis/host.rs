//! Resources that a server needs from this machine: a process that cannot outlive the tests, and reserved ports.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::process::{Child, Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use socket2::{Domain, Socket, Type};

/// Ports of servers: below those that the kernel gives to clients, and outside the range that gateways use.
const PORTS: std::ops::Range<u16> = 10_500..20_000;

type Order = (Command, Sender<io::Result<Child>>);

/// Returns a command that runs a program which the kernel kills when this process ends.
pub fn dependent(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

/// Starts a [`dependent`] program; if it is missing, the test fails with the name of its Debian package.
///
/// The kernel kills the program when the *thread* that started it ends, so one thread starts all of
/// them and never ends.
#[track_caller]
pub fn spawn(command: Command, program: &str, package: &str) -> Child {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    assert_installed("setpriv", "util-linux");
    assert_installed(program, package);
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, ordered) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in ordered {
                // The thread that sent the order waits for the reply.
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, child) = channel();
    spawner.send((command, reply)).expect("the thread is there");
    let child = child.recv().expect("the thread replies");
    child.unwrap_or_else(|error| panic!("{program} does not start: {error}"))
}

/// Runs a program to its end; the test fails if the program is missing or fails.
#[track_caller]
pub fn run(command: &mut Command, package: &str) -> Output {
    let program = command.get_program().to_string_lossy().into_owned();
    assert_installed(&program, package);
    let output = command.output().expect("an installed program runs");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

#[track_caller]
fn assert_installed(program: &str, package: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(
        found,
        "{program} is missing: install the Debian package {package}, or run scripts/test"
    );
}

/// A port that no other test takes while this is held, whether or not a server listens on it.
///
/// The socket that holds the port is bound but does not listen. A listener with SO_REUSEADDR can
/// bind to the same port; [`Port::reserve`] binds without that option, so it cannot.
#[derive(Debug)]
pub struct Port {
    pub address: SocketAddr,
    _held: Socket,
}

impl Port {
    /// Reserves a free port.
    pub fn reserve() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        static FIRST: OnceLock<u16> = OnceLock::new();
        let ports = PORTS.end - PORTS.start;
        // Random, so that test processes that run side by side do not try the same ports.
        let first = *FIRST.get_or_init(|| {
            let drawn = RandomState::new().hash_one(std::process::id()) % u64::from(ports);
            u16::try_from(drawn).expect("below the number of ports")
        });
        loop {
            let step = NEXT.fetch_add(1, Ordering::SeqCst) % ports;
            let port = PORTS.start + (first + step) % ports;
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
            if held.bind(&address.into()).is_ok() {
                let shared = held.set_reuse_address(true);
                shared.expect("an option of every socket");
                return Self {
                    address,
                    _held: held,
                };
            }
        }
    }
}
