//! Memory of a gateway while thousands of clients wait: slow ones, and those whose origin is slow.
//!
//! The sockets of the client and of the origin are kept small, and announce segments as small as on
//! a network. Otherwise the kernel would take whole bodies, because a socket on loopback may hold
//! megabytes, and the gateway's own buffers would stay empty. The gateway's sockets are as the
//! system makes them; 10,000 clients are too many for `net.ipv4.tcp_mem` on most machines, unless
//! sockets are kept small in a network namespace of their own:
//!
//! ```sh
//! unshare -n sh -c "ip link set lo up
//!     sysctl -w net.ipv4.tcp_rmem='4096 16384 16384' net.ipv4.tcp_wmem='4096 16384 16384'
//!     cargo bench --bench bodies -- 0 10000"
//! ```

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::gateways::Gateway;
use super::support::servers::Process;
use super::traffic::{Content, Direction, Origin, ask};

/// The origin's port; those of the gateways follow.
const ORIGIN: u16 = 19_160;
/// Bytes of a segment on an Ethernet.
const SEGMENT_BYTES: u32 = 1_448;
/// Bytes that the sockets at both ends are asked to hold.
const SOCKET_BYTES: u32 = 4_096;
/// Further files and sockets that a process has open.
const SPARE_FILES: u64 = 400;
/// How long the figures of one gateway may take.
const FILL_MAX: Duration = Duration::from_mins(5);
/// How long it takes until buffers are as full as they get.
const FILLING: Duration = Duration::from_secs(5);
/// How long a gateway is given to free memory after its clients left.
const RECOVERY: Duration = Duration::from_secs(12);

/// What clients ask for: its name in the table, and its path.
const SHAPES: [(&str, &str); 2] = [
    ("a MiB, of which the client takes 1 byte", "/download/0/4"),
    ("an answer that stops after 100 bytes", "/silence"),
];

/// Measures and prints each gateway's memory with this many clients; each is started afresh.
pub async fn measure(gateways: &[Gateway], folder: &Path, clients: usize) {
    // Each client takes two sockets of the gateway, and two of this process.
    let files = rlimit::increase_nofile_limit(2 * clients as u64 + SPARE_FILES);
    let files = files.expect("a limit of open files");
    let clients = clients.min(usize::try_from((files - SPARE_FILES) / 2).expect("a small number"));
    let socket = small_socket();
    socket.set_reuseaddr(true).expect("a socket");
    socket
        .bind(([0, 0, 0, 0], ORIGIN).into())
        .expect("a free port");
    let origin = Origin::start(socket.listen(4_096).expect("a port"));
    println!("\nMiB of memory with {clients} clients, KiB for each of them");
    let runs = SHAPES
        .iter()
        .flat_map(|shape| gateways.iter().map(move |gateway| (shape, gateway)));
    for (number, ((name, path), gateway)) in (1..).zip(runs) {
        if (usize::from(number) - 1).is_multiple_of(gateways.len()) {
            println!(
                "\n{name:<42}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}",
                "before", "during", "most", "after", "each", "sockets"
            );
        }
        // Each gateway has an address of the origin to itself, so that there are enough ports.
        let endpoint = format!("127.0.0.{}:{ORIGIN}", number + 1);
        let port = ORIGIN + number;
        let process = gateway.start(folder, port, &endpoint);
        let filled = timeout(FILL_MAX, fill(&origin, &process, port, path, clients));
        let figures = filled.await.expect("every client gets its byte");
        print(&gateway.name, &figures, clients);
    }
}

/// Bytes of the gateway's resident memory, except `sockets`, which are the kernel's.
struct Figures {
    before: u64,
    during: u64,
    most: u64,
    after: u64,
    sockets: u64,
}

/// Has all clients ask, and read no more than the first byte of the body.
async fn fill(
    origin: &Rc<Origin>,
    process: &Process,
    port: u16,
    path: &str,
    clients: usize,
) -> Figures {
    pass_some(origin, port).await;
    let (before, _) = process.resident();
    let sockets = socket_bytes();
    let mut streams = Vec::with_capacity(clients);
    for _ in 0..clients {
        let mut stream = connect(port).await;
        ask(&mut stream, path).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("it answers"));
        }
        stream.read_u8().await.expect("a body");
        streams.push(stream);
    }
    sleep(FILLING).await;
    let (during, most) = process.resident();
    let sockets = socket_bytes().saturating_sub(sockets);
    assert!(process.open_files() >= 2 * clients, "none has left");
    drop(streams);
    // Some allocators give memory back only when they are asked for memory.
    for _ in 0..RECOVERY.as_secs() {
        sleep(Duration::from_secs(1)).await;
        pass_some(origin, port).await;
    }
    let (after, _) = process.resident();
    Figures {
        before,
        during,
        most,
        after,
        sockets,
    }
}

/// Has several answers of a MiB passed on at the same time, to clients that are not slow.
async fn pass_some(origin: &Rc<Origin>, port: u16) {
    let content = Content {
        chunk_bytes: 0,
        blocks: 4,
    };
    let mut clients = JoinSet::new();
    for _ in 0..8 {
        let origin = Rc::clone(origin);
        clients.spawn_local(async move {
            let mut stream = connect(port).await;
            let download = Direction::Download;
            origin.transfer(&mut stream, download, content).await
        });
    }
    clients.join_all().await;
}

async fn connect(port: u16) -> TcpStream {
    let socket = small_socket();
    let stream = socket.connect(([127, 0, 0, 1], port).into()).await;
    stream.expect("the gateway accepts")
}

fn small_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .set_recv_buffer_size(SOCKET_BYTES)
        .and_then(|()| socket.set_send_buffer_size(SOCKET_BYTES))
        .and_then(|()| SockRef::from(&socket).set_tcp_mss(SEGMENT_BYTES))
        .expect("a small socket");
    socket
}

/// Returns the bytes that the kernel holds for all TCP sockets of the machine.
fn socket_bytes() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:"));
    let pages = line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4_096
}

fn print(name: &str, figures: &Figures, clients: usize) {
    let mib = |bytes: u64| bytes >> 20;
    let each = |bytes: u64| bytes as f64 / 1024.0 / clients as f64;
    println!(
        "{name:<42}{:>8}{:>8}{:>8}{:>8}{:>8.1}{:>9.1}",
        mib(figures.before),
        mib(figures.during),
        mib(figures.most),
        mib(figures.after),
        each(figures.during.saturating_sub(figures.before)),
        each(figures.sockets),
    );
}
