//! Whole messages on a socket: whatever a client sends, the origin gets requests that everybody
//! reads in one way, one after the other and with nothing between them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use tollgate::request::path::normalise;

use crate::answers::take;
use crate::hostile::{lines, run};
use crate::support::{Config, get, start};

#[test]
fn an_origin_gets_only_what_everybody_reads_alike() {
    let origin = RawOrigin::start();
    let config = Config::limited(
        format!("http://{}", origin.address),
        "quota = '1000000 per hour'\npartition = ['header:x-api-key | ip']",
    );
    let config = config.route("/kept/*", "encoded_slash = 'keep'");
    let running = start(&config.one_worker().with("[log]\naccess = 'off'"));
    let public = running.public;
    let target = |message: &[u8]| {
        send(public, message);
        assert_eq!(origin.log().odd, None);
    };
    run(target, &lines("wire"), 600);
    let before = origin.log().requests;
    assert_eq!(get(public, "/last", "").status, 200);
    drop(running);
    let log = origin.log();
    assert_eq!(log.odd, None);
    assert!(log.requests > before, "the origin reads what it gets");
}

/// Sends a message and takes in the answers, until none comes while the gateway's only worker
/// answers another request.
fn send(gateway: SocketAddr, message: &[u8]) {
    let mut stream = TcpStream::connect(gateway).expect("the gateway accepts connections");
    // The gateway may have refused and closed before all was written.
    let _ = stream.write_all(message);
    let settle = || assert_eq!(get(gateway, "/behind", "").status, 200);
    let mut answers = Vec::new();
    while take(&mut stream, &mut answers, settle) {}
}

/// Answers whenever a request is complete, and notes the first bytes that are not one.
struct RawOrigin {
    address: SocketAddr,
    log: Arc<Mutex<Log>>,
}

#[derive(Clone, Debug, Default)]
struct Log {
    requests: usize,
    odd: Option<String>,
}

impl RawOrigin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let log: Arc<Mutex<Log>> = Arc::default();
        let shared = Arc::clone(&log);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, log }
    }

    fn log(&self) -> Log {
        lock(&self.log).clone()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Log>) {
    let mut unread = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        unread.extend(&piece[..length]);
        let (requests, rest) = match read(&unread) {
            Ok((requests, rest)) => (requests, rest.to_vec()),
            Err(why) => {
                let odd = format!("{why}: {}", unread.escape_ascii());
                lock(log).odd.get_or_insert(odd);
                return;
            }
        };
        unread = rest;
        lock(log).requests += requests;
        let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".repeat(requests);
        if stream.write_all(&answers).is_err() {
            return;
        }
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().expect("nothing panics with it held")
}

/// Reads requests as the strictest origin would; returns how many are whole, and the bytes of an unfinished one.
fn read(bytes: &[u8]) -> Result<(usize, &[u8]), String> {
    let (mut requests, mut rest) = (0, bytes);
    while let Some((head, body)) = split(rest, b"\r\n\r\n") {
        let Some(after) = end_of(head, body)? else {
            break;
        };
        requests += 1;
        rest = after;
    }
    Ok((requests, rest))
}

/// Returns what follows a request's body; `None` if the body is not whole yet.
fn end_of<'b>(head: &[u8], body: &'b [u8]) -> Result<Option<&'b [u8]>, String> {
    if head.iter().copied().any(is_odd) {
        return Err("control characters".to_owned());
    }
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    start_line(lines.next().unwrap_or_default())?;
    let (mut hosts, mut lengths, mut codings) = (0, Vec::new(), Vec::new());
    for line in lines {
        let (name, value) = field(line)?;
        match name.replace('_', "-").as_str() {
            "host" => hosts += 1,
            "content-length" => lengths.push(value),
            "transfer-encoding" => codings.push(value),
            "upgrade" | "keep-alive" | "proxy-connection" | "expect" | "http2-settings" => {
                return Err(format!("a field of another connection: {line:?}"));
            }
            _ => {}
        }
    }
    if hosts != 1 {
        return Err(format!("{hosts} hosts"));
    }
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Some(body)),
        ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            let length: usize = length.parse().map_err(|_| format!("length {length}"))?;
            Ok(body.get(length..))
        }
        ([], [coding]) if coding == "chunked" => chunks(body),
        _ => Err(format!("two readings: {lengths:?} {codings:?}")),
    }
}

/// Whether a head must not have this byte.
pub fn is_odd(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t')
}

/// Reads a field: its name in lower case, and its value.
pub fn field(line: &str) -> Result<(String, String), String> {
    let Some((name, value)) = line.split_once(':') else {
        return Err(format!("no field: {line:?}"));
    };
    if name.is_empty() || !name.bytes().all(is_token) || value.contains(['\r', '\n']) {
        return Err(format!("an odd field: {line:?}"));
    }
    Ok((name.to_ascii_lowercase(), value.trim().to_owned()))
}

fn start_line(line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words[..] else {
        return Err(format!("an odd first line: {line:?}"));
    };
    let path = target.split('?').next().unwrap_or_default();
    let is_normal = normalise(path).is_ok_and(|normal| normal.as_str() == path);
    let is_good = !method.is_empty() && method.bytes().all(is_token) && !target.contains('#');
    if is_good && (is_normal || (method == "OPTIONS" && target == "*")) {
        Ok(())
    } else {
        Err(format!("an odd first line: {line:?}"))
    }
}

/// Returns what follows a chunked body without extensions; `None` if the body is not whole yet.
pub fn chunks(mut body: &[u8]) -> Result<Option<&[u8]>, String> {
    loop {
        let Some((size, rest)) = split(body, b"\r\n") else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(size);
        let is_hex = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
        let length = usize::from_str_radix(&text, 16);
        let (true, Ok(length)) = (is_hex, length) else {
            return Err(format!("chunk size {text:?}"));
        };
        if length == 0 {
            return trailers(rest);
        }
        match rest.get(length..) {
            Some([b'\r', b'\n', after @ ..]) => body = after,
            Some([] | [b'\r']) | None => return Ok(None),
            Some(_) => return Err("a chunk without its end".to_owned()),
        }
    }
}

fn trailers(mut rest: &[u8]) -> Result<Option<&[u8]>, String> {
    while let Some((line, after)) = split(rest, b"\r\n") {
        if line.is_empty() {
            return Ok(Some(after));
        }
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let forbidden = [
            "host",
            "content-length",
            "transfer-encoding",
            "x-forwarded-for",
        ];
        if forbidden.contains(&&*name) {
            return Err(format!("{name} in the trailers"));
        }
        rest = after;
    }
    Ok(None)
}

/// Splits at the first occurrence of `at`, which neither part has.
pub fn split<'b>(bytes: &'b [u8], at: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let found = bytes.windows(at.len()).position(|window| window == at)?;
    Some((&bytes[..found], &bytes[found + at.len()..]))
}

/// Whether a byte may be in a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
