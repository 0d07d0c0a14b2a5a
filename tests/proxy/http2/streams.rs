//! What a stream carries: lengths, trailers, and bodies next to others that stall.

use http::{HeaderMap, HeaderValue, Method};

use super::frames::{DATA, END_HEADERS, END_STREAM, Frames, GET, HEADERS, PING, RST_STREAM, get};
use crate::support::http2::{Http2, Stream, request};
use crate::support::{After, secs};
use crate::support::{Config, Gate, Origin, Stepped, Unreachable, get as get_once, start};

const WINDOW: u32 = 1 << 20;

#[test]
fn the_date_of_an_answer_is_wall_time() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Http2::connect(running.public, WINDOW);
    let mut date = || {
        let head = client.ask(Method::GET, "/").head().expect("an answer");
        head.headers()["date"].clone()
    };
    assert_eq!(date(), "Wed, 15 Nov 2023 00:00:00 GMT");
    running.clock.set_wall_ahead(3_600_000_000);
    assert_eq!(date(), "Wed, 15 Nov 2023 01:00:00 GMT");
}

#[test]
fn an_answer_has_the_length_that_its_origin_said_and_no_other() {
    let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
    let [get, of_head] = [Method::GET, Method::HEAD];
    for (method, answer, length, body) in [
        (
            &get,
            head("Content-Length: 5\r\n") + "hello",
            Some("5"),
            "hello",
        ),
        (&get, head("Content-Length: 0\r\n"), Some("0"), ""),
        (
            &get,
            head("Transfer-Encoding: chunked\r\n") + "5\r\nhello\r\n0\r\n\r\n",
            None,
            "hello",
        ),
        (&of_head, head("Content-Length: 5\r\n"), Some("5"), ""),
        (&of_head, head("Content-Length: 0\r\n"), Some("0"), ""),
        (&of_head, head("Transfer-Encoding: chunked\r\n"), None, ""),
        (&of_head, head(""), None, ""),
        (&get, "HTTP/1.1 204 No Content\r\n\r\n".to_owned(), None, ""),
        (
            &get,
            "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(),
            None,
            "",
        ),
        (
            &get,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n".to_owned(),
            Some("5"),
            "",
        ),
    ] {
        let origin = Origin::answering(answer.clone());
        let running = start(&Config::to(origin.url()).route("/*", ""));
        let mut client = Http2::connect(running.public, WINDOW);
        let mut stream = client.ask(method.clone(), "/");
        let seen = stream.head().expect("an answer");
        let told = seen
            .headers()
            .get("content-length")
            .map(HeaderValue::as_bytes);
        assert_eq!(
            told,
            length.map(str::as_bytes),
            "{method} {answer:?}: {seen:?}"
        );
        assert_eq!(seen.status().as_str(), &answer[9..12]);
        assert_eq!(
            stream.rest(),
            Ok(body.as_bytes().to_vec()),
            "{method} {answer:?}"
        );
    }
}

#[test]
fn a_host_field_may_spell_the_authority_in_another_way() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Http2::connect(running.public, WINDOW);
    let mut request = request(Method::GET, "/");
    let host = HeaderValue::from_static("A.TEST:80");
    request.headers_mut().insert("host", host);
    assert_eq!(client.begin(request, true).status(), Ok(200));
    assert_eq!(origin.only_request().head.field("host"), Some("a.test"));
}

#[test]
fn trailers_pass_in_both_directions() {
    let origin = Origin::scripted(|exchange| {
        exchange.read_body()?;
        exchange.write(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
             5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n",
        )?;
        Ok(After::Keep)
    });
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Http2::connect(running.public, WINDOW);
    let mut request = request(Method::POST, "/");
    let te = HeaderValue::from_static("trailers");
    request.headers_mut().insert("te", te);
    let announced = HeaderValue::from_static("x-own");
    request.headers_mut().insert("trailer", announced);
    let mut stream = client.begin(request, false);
    stream.send(b"body");
    let mut own = HeaderMap::new();
    own.insert("x-own", HeaderValue::from_static("7"));
    stream.finish_with(own);
    assert_eq!(stream.status(), Ok(200));
    assert_eq!(stream.rest(), Ok(b"hello".to_vec()));
    let trailers = stream.trailers().expect("no reset").expect("trailers");
    assert_eq!(trailers["x-sum"], "42");
    let seen = origin.only_request();
    assert_eq!(seen.body, b"body");
    assert_eq!(seen.trailers, [("x-own".to_owned(), "7".to_owned())]);
}

/// A gateway with `/stuck`, whose origin never accepts a connection, and with `/`, which is answered.
fn beside_stuck(origin: &Origin, stuck: &Unreachable) -> Stepped {
    let config = Config::to(origin.url())
        .listener("body_timeout = '5s'")
        .route("/*", "")
        .with(&format!(
            "[upstreams.stuck]\nendpoints = ['{}']\nconnect_timeout = '24h'\n\
             [[routes]]\npath = '/stuck'\nupstream = 'stuck'",
            stuck.url()
        ));
    Stepped::start(&config)
}

/// All other streams that the connection may have are stalled, each with as much data as its window takes.
#[test]
fn uploads_that_stand_still_leave_room_for_another() {
    let (origin, stuck) = (Origin::plain(), Unreachable::new());
    let running = beside_stuck(&origin, &stuck);
    let mut client = Http2::connect(running.public, WINDOW);
    let piece = vec![b'x'; 128 * 1024];
    let stalled: Vec<Stream> = (0..99)
        .map(|_| {
            let mut stream = client.begin(request(Method::POST, "/stuck"), false);
            stream.send(&piece);
            stream
        })
        .collect();
    let mut stream = client.begin(request(Method::POST, "/"), false);
    stream.send(&piece);
    stream.finish();
    assert_eq!(stream.status(), Ok(200));
    assert_eq!(origin.only_request().body.len(), piece.len());
    running.advance(secs(6));
    let mut stream = client.begin(request(Method::POST, "/"), false);
    running.settle();
    stream.send(b"hello");
    stream.finish();
    assert_eq!(
        stream.status(),
        Ok(200),
        "waiting for the upstream does not count"
    );
    assert_eq!(stalled.len(), 99);
}

#[test]
fn one_answer_that_its_client_does_not_take_leaves_others_alone_and_ends_by_itself() {
    let origin = Origin::scripted(|exchange| {
        let length = if exchange.head.start.contains("/large") {
            300_000
        } else {
            2
        };
        exchange.write(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
        ))?;
        exchange.write(vec![b'x'; length])?;
        Ok(After::Keep)
    });
    let config = Config::to(origin.url()).listener("body_timeout = '5s'");
    let running = Stepped::start(&config.route("/*", ""));
    let mut client = Http2::connect(running.public, 32 * 1024);
    let mut stalled = client.ask(Method::GET, "/large");
    assert_eq!(stalled.status(), Ok(200));
    for _ in 0..2 {
        let mut stream = client.ask(Method::GET, "/");
        assert_eq!(stream.status(), Ok(200));
        assert_eq!(stream.rest(), Ok(b"xx".to_vec()));
        running.advance(secs(4));
    }
    let rest = stalled.rest().map(|body| body.len());
    assert_eq!(rest, Err(h2::Reason::CANCEL));
    let mut stream = client.ask(Method::GET, "/");
    assert_eq!(stream.status(), Ok(200));
}

#[test]
fn a_body_that_the_client_withholds_is_asked_for() {
    let origin = Origin::plain();
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Http2::connect(running.public, WINDOW);
    let mut request = request(Method::POST, "/");
    let expect = HeaderValue::from_static("100-continue");
    request.headers_mut().insert("expect", expect);
    let mut stream = client.begin(request, false);
    stream.asked_to_go_on();
    stream.send(b"hello");
    stream.finish();
    assert_eq!(stream.status(), Ok(200));
    assert_eq!(origin.only_request().body, b"hello");
}

/// With an origin over HTTP/1.1, and with one over HTTP/2: the first gateway is the origin of the second.
#[test]
fn interim_answers_of_an_origin_pass_to_clients_of_http2_and_to_no_other() {
    let hint = |fields: &str| format!("HTTP/1.1 103 Early Hints\r\n{fields}\r\n");
    let (large, none) = (hint(&format!("X: {}\r\n", "a".repeat(20_000))), hint(""));
    let hints =
        "Link: </a>\r\nLink: </b>\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 3\r\n";
    let first = format!(
        "HTTP/1.1 100 Continue\r\n\r\n{}HTTP/1.1 102 Processing\r\n\r\n",
        hint(hints)
    );
    let origin = Origin::scripted(move |exchange| {
        exchange.write(match exchange.target() {
            "/many" => none.repeat(65),
            "/large" => large.repeat(4),
            _ => first.clone(),
        })?;
        exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        Ok(After::Close)
    });
    let inner = start(&Config::to(origin.url()).route("/*", ""));
    let h2c = format!("h2c://{}", inner.public);
    let outer = start(&Config::to(h2c).route("/*", ""));
    for running in [&inner, &outer] {
        let mut client = Http2::connect(running.public, WINDOW);
        let mut ask = |path: &str| {
            let mut stream = client.ask(Method::GET, path);
            let interim: Vec<_> = std::iter::from_fn(|| stream.interim()).collect();
            (stream.status().expect("an answer"), interim)
        };
        let (status, interim) = ask("/");
        let told = interim.iter().map(|interim| {
            let names = interim.headers().keys().map(ToString::to_string);
            (interim.status().as_u16(), names.collect())
        });
        let told: Vec<(u16, Vec<String>)> = told.collect();
        let links = vec!["link".to_owned()];
        assert_eq!((status, told), (200, vec![(103, links), (102, vec![])]));
        let links = interim[0].headers().get_all("link").iter();
        assert!(links.eq(["</a>", "</b>"]));
        // The number of interim answers is bounded, and so are their bytes.
        for (path, most) in [("/many", 64), ("/large", 3)] {
            let (status, interim) = ask(path);
            assert_eq!((status, interim.len()), (502, most), "{path}");
        }
        let answer = get_once(running.public, "/", "");
        assert_eq!((answer.status, answer.text()), (200, "ok".to_owned()));
    }
}

/// What a client sends after it has got its answer is dropped, and harms no other stream.
#[test]
fn an_early_answer_ends_an_upload_and_nothing_else() {
    let read = Gate::default();
    let origin = Origin::scripted({
        let read = read.clone();
        move |exchange| {
            if exchange.head.start.contains("/early") {
                // The client may send nothing more once it has the answer.
                exchange.wire.take(1)?;
                exchange.write("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")?;
                read.wait();
                return Ok(After::Close);
            }
            exchange.read_body()?;
            exchange.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            Ok(After::Keep)
        }
    });
    let running = start(&Config::to(origin.url()).route("/*", ""));
    let mut client = Http2::connect(running.public, WINDOW);
    let mut stream = client.begin(request(Method::POST, "/early"), false);
    stream.send(&vec![b'x'; 1 << 20]);
    assert_eq!(stream.status(), Ok(413));
    assert_eq!(stream.rest(), Ok(b"no".to_vec()));
    let mut stream = client.begin(request(Method::POST, "/"), false);
    stream.send(&vec![b'x'; 1 << 20]);
    stream.finish();
    assert_eq!(stream.status(), Ok(200));
    read.open();
}

#[test]
fn a_redirect_to_https_is_the_same_over_http2() {
    let running = start(&Config::to("builtin:redirect-https").route("/*", ""));
    let mut client = Http2::connect(running.public, WINDOW);
    let answer = client.ask(Method::GET, "/a?b").head().expect("an answer");
    assert_eq!(answer.status(), 308);
    assert_eq!(answer.headers()["location"], "https://a.test/a?b");
}

/// Because some clients take a reset stream for a failure, and do not show the answer.
#[test]
fn a_refused_request_with_a_short_body_is_answered_and_not_reset() {
    let policy = "quota = '1 per hour'\npartition = []";
    let running = start(&Config::limited("builtin:echo", policy));
    let mut frames = Frames::connect(running.public, b"");
    frames.send_all(&get(1));
    frames.until(DATA);
    // `content-length: 1`, after the fields of a GET.
    let post = [b"\x83", &GET[1..], b"\x0f\x0d\x011"].concat();
    frames.send(HEADERS, END_HEADERS, 3, &post);
    frames.ping();
    frames.send(DATA, END_STREAM, 3, b"x");
    assert_eq!(frames.until(HEADERS).stream, 3);
    assert_eq!(frames.until(DATA).stream, 3);
    frames.send(PING, 0, 0, &[0; 8]);
    while let Some(frame) = frames.next() {
        assert_ne!((frame.kind, frame.stream), (RST_STREAM, 3));
        if frame.kind == PING {
            return;
        }
    }
    panic!("the connection has ended");
}
