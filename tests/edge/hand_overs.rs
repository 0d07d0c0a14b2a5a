//! Hand-overs and drains under load: connected clients get whole answers, and in a hand-over new clients do, too.
//!
//! `TOLLGATE_HAND_OVERS=200` and `TOLLGATE_DRAINS=20` turn these tests into drills.

use std::io::{Error, Read, Result, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::secure::{Secure, tls, trusting};
use crate::support::{
    After, Authority, Client, Config, Exchange, Generations, Origin, PATIENCE, Process, eventually,
};

/// Requests that a client sends again and again until it is told to stop.
type Load = Box<dyn Fn(&Target) -> Result<()> + Send + Sync>;

/// The gateway, as clients see it.
struct Target {
    clear: SocketAddr,
    encrypted: SocketAddr,
    tls: Arc<ClientConfig>,
    /// Whether clients must stop.
    is_over: AtomicBool,
    /// Whether clients must stay away once their connection has ended.
    is_leaving: AtomicBool,
    /// Number of whole answers so far.
    answers: AtomicUsize,
}

impl Target {
    fn of(process: &Process, authority: &Authority) -> Self {
        let line = process.wait_for_line(&["listening on", "listeners.secure"]);
        let encrypted = line.split("://").nth(1);
        let encrypted = encrypted.and_then(|rest| rest.split(' ').next()?.parse().ok());
        Self {
            clear: process.public,
            encrypted: encrypted.expect("an address"),
            tls: Arc::new(trusting(authority, None)),
            is_over: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
        }
    }

    /// Waits until `more` further answers have come.
    fn wait_for_answers(&self, more: usize) {
        let before = self.answers.load(Ordering::SeqCst);
        eventually("requests are answered", || {
            let now = self.answers.load(Ordering::SeqCst);
            (now >= before + more).then_some(())
        });
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn answered(&self) {
        self.answers.fetch_add(1, Ordering::SeqCst);
    }

    fn connect(&self) -> Result<Client> {
        Client::try_connect(self.clear)
    }
}

/// Reads an answer with that status and body (if empty, any body); returns whether the connection ends after it.
fn expect(client: &mut Client<impl Read + Write>, status: u16, body: &[u8]) -> Result<bool> {
    let answer = client.try_answer()?;
    if answer.status == status && (body.is_empty() || answer.body == body) {
        return Ok(answer.says_close());
    }
    Err(Error::other(format!("{answer:?}")))
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const EVENTS: &[u8] = b"GET /events HTTP/1.1\r\nHost: a.test\r\n\r\n";
const SOCKET: &[u8] =
    b"GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n";
const PIECES: usize = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// Answers `/`, streams events, and echoes uploads and what comes through a tunnel.
fn answer(exchange: &mut Exchange<'_>) -> Result<After> {
    match exchange.target() {
        "/events" => {
            exchange.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for _ in 0..PIECES {
                exchange.write("8\r\ndata: 1\n\r\n")?;
                thread::sleep(PAUSE);
            }
            exchange.write("0\r\n\r\n")?;
            Ok(After::Keep)
        }
        "/socket" => {
            exchange.write(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            )?;
            for _ in 0..PIECES {
                let piece = exchange.wire.take(4)?;
                exchange.write(piece)?;
            }
            Ok(After::Close)
        }
        _ => {
            exchange.read_body()?;
            let length = exchange.body().len();
            let body = format!("{length:06}");
            exchange.write(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n{body}"
            ))?;
            Ok(After::Keep)
        }
    }
}

/// Sends requests over one connection until an answer announces its end, or clients must stop.
fn keep_asking(target: &Target, client: &mut Client<impl Read + Write>, ask: &[u8]) -> Result<()> {
    loop {
        client.wire.write(ask)?;
        let is_last = expect(client, 200, b"")?;
        target.answered();
        if is_last || target.is_over() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn upload(target: &Target) -> Result<()> {
    let mut client = target.connect()?;
    client.wire.write(UPLOAD)?;
    for _ in 0..PIECES {
        client.wire.write(&[b'x'; 100_000 / PIECES])?;
        thread::sleep(PAUSE);
    }
    expect(&mut client, 200, b"100000")?;
    target.answered();
    Ok(())
}

fn talk(target: &Target) -> Result<()> {
    let mut client = target.connect()?;
    client.wire.write(SOCKET)?;
    expect(&mut client, 101, b"")?;
    for _ in 0..PIECES {
        client.wire.write(b"ping")?;
        if client.wire.take(4)? != b"ping" {
            return Err(Error::other("another echo"));
        }
        thread::sleep(PAUSE);
    }
    target.answered();
    Ok(())
}

fn loads() -> Vec<(&'static str, Load)> {
    vec![
        (
            "new connections",
            Box::new(|target| {
                let mut client = target.connect()?;
                client.wire.write(GET)?;
                expect(&mut client, 200, b"000000")?;
                target.answered();
                Ok(())
            }),
        ),
        (
            "a kept connection",
            Box::new(|target| keep_asking(target, &mut target.connect()?, GET)),
        ),
        (
            "a kept connection over TLS",
            Box::new(|target| {
                let secure = Secure::connect(target.encrypted, &target.tls, Some("localhost"))?;
                keep_asking(target, &mut { secure.client }, GET)
            }),
        ),
        (
            "events",
            Box::new(|target| keep_asking(target, &mut target.connect()?, EVENTS)),
        ),
        ("uploads", Box::new(upload)),
        ("tunnels", Box::new(talk)),
        ("HTTP/2", Box::new(|target| over_http2(target, false))),
        (
            "HTTP/2 over TLS",
            Box::new(|target| over_http2(target, true)),
        ),
    ]
}

/// Sends requests over one connection until the gateway accepts no more streams on it.
fn over_http2(target: &Target, is_encrypted: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        if !is_encrypted {
            let stream = tokio::net::TcpStream::connect(target.clear).await?;
            return ask_http2(target, stream).await;
        }
        let stream = tokio::net::TcpStream::connect(target.encrypted).await?;
        let mut config = ClientConfig::clone(&target.tls);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let host = "localhost".try_into().map_err(Error::other)?;
        ask_http2(target, connector.connect(host, stream).await?).await
    })
}

async fn ask_http2<T>(target: &Target, stream: T) -> Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = h2::client::handshake(stream).await;
    let (mut requests, connection) = handshake.map_err(Error::other)?;
    let connection = tokio::spawn(connection);
    let asking = async {
        // After GOAWAY, a connection takes no more requests, but has lost none.
        while let Ok(ready) = requests.clone().ready().await {
            requests = ready;
            if target.is_over() {
                break;
            }
            match answer_http2(&mut requests).await {
                Ok(true) => target.answered(),
                Ok(false) => break,
                Err(error) => return Err(Error::other(error)),
            }
        }
        Ok(())
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    connection.abort();
    asked.map_err(Error::other)?
}

/// Sends one request; returns false if the gateway has announced in time that it takes no more.
async fn answer_http2(requests: &mut SendRequest<Bytes>) -> std::result::Result<bool, h2::Error> {
    let request = http::Request::get("http://a.test/")
        .body(())
        .expect("a good request");
    let begun = requests.send_request(request, true);
    let Ok((answering, _)) = begun else {
        return Ok(false);
    };
    let answer = match answering.await {
        // The stream was begun after the last one that the gateway takes.
        Err(error) if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) => {
            return Ok(false);
        }
        answer => answer?,
    };
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    let mut length = 0;
    while let Some(piece) = body.data().await {
        length += piece?.len();
    }
    assert_eq!(length, 6);
    Ok(true)
}

/// Returns how many times something is to happen: the variable's value, or the usual number.
fn times(variable: &str, usual: usize) -> usize {
    let times = std::env::var(variable).ok();
    times.and_then(|times| times.parse().ok()).unwrap_or(usual)
}

fn config(origin: &Origin, authority: &Authority) -> Config {
    let certificate = authority.sign("localhost", &["DNS:localhost"]);
    let secure = tls(&[&certificate], "");
    let listener = format!("[listeners.secure]\naddress = '127.0.0.1:0'\n{secure}\n");
    Config::to(origin.url()).route("/*", "").with(&listener)
}

/// Clients that are told that their connection ends do not come back, because nobody listens any more.
#[test]
fn drains_under_load_cut_no_answer() {
    let origin = Origin::scripted(answer);
    let authority = Authority::new();
    for _ in 0..times("TOLLGATE_DRAINS", 3) {
        // Clients that are just connecting still find a listener.
        let config = config(&origin, &authority).top("shutdown_delay = '200ms'");
        let mut process = Process::start(&config);
        let target = Arc::new(Target::of(&process, &authority));
        let kept = loads()
            .into_iter()
            .filter(|(name, _)| *name != "new connections");
        let clients = kept.map(|(name, load)| {
            let target = Arc::clone(&target);
            thread::spawn(move || {
                while !target.is_leaving.load(Ordering::SeqCst) {
                    load(&target).map_err(|error| format!("{name}: {error}"))?;
                }
                Ok::<(), String>(())
            })
        });
        let clients: Vec<_> = clients.collect();
        target.wait_for_answers(50);
        target.is_leaving.store(true, Ordering::SeqCst);
        process.signal("TERM");
        for client in clients {
            assert_eq!(client.join().expect("a client does not panic"), Ok(()));
        }
        assert!(process.wait().success());
        let cut = "the shutdown grace period has ended";
        assert!(!process.lines().iter().any(|line| line.contains(cut)));
    }
}

#[test]
fn hand_overs_under_load_lose_no_request() {
    let hand_overs = times("TOLLGATE_HAND_OVERS", 5);
    let origin = Origin::scripted(answer);
    let authority = Authority::new();
    let generations = Generations::start(&config(&origin, &authority));
    let target = Arc::new(Target::of(&generations.first, &authority));
    let clients = loads().into_iter().map(|(name, load)| {
        let target = Arc::clone(&target);
        thread::spawn(move || {
            let mut rounds = 0;
            while !target.is_over() {
                load(&target).map_err(|error| format!("{name}, round {rounds}: {error}"))?;
                rounds += 1;
            }
            Ok::<usize, String>(rounds)
        })
    });
    let clients: Vec<_> = clients.collect();
    for hand_over in 0..hand_overs {
        target.wait_for_answers(50);
        match hand_over {
            // First a new process that dies at once, and then a replaced binary.
            1 => {
                generations.replace("exit 1");
                assert!(!generations.upgrade().status.success());
                generations.restore();
            }
            2 => {
                generations.replace("exec $TOLLGATE \"$@\"");
                generations.upgraded();
                generations.restore();
            }
            _ => {
                generations.upgraded();
            }
        }
    }
    target.is_over.store(true, Ordering::SeqCst);
    for client in clients {
        let rounds = client.join().expect("a client does not panic");
        assert!(
            rounds.as_ref().is_ok_and(|rounds| *rounds > 0),
            "{rounds:?}"
        );
    }
    eventually("only the last lives", || {
        (generations.living() == 1).then_some(())
    });
}
