//! Answers that break the rules of HTTP never reach the next client.
//!
//! Each bad answer goes to a client that has pipelined a second request; after that, another client
//! sends a request. With one worker and one pool, a connection that was wrongly kept would be used
//! at once, and surplus bytes of the origin would be the next client's answer.

use crate::support::{After, Answer, Client, Config, Metered, Origin, Running, start};

/// What the client gets in place of a bad answer.
enum Seen {
    /// A 502; the client's connection stays open.
    BadGateway,
    /// The answer that was meant for it, and no byte more; the client's connection stays open.
    Status(u16, &'static str),
    /// A beginning that does not look complete, and then the end of the client's connection.
    Beginning,
}

struct Case {
    name: &'static str,
    method: &'static str,
    answer: Vec<u8>,
    /// What the origin does with the connection after its answer.
    after: After,
    seen: Seen,
}

const CLEAN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nclean";

fn case(name: &'static str, answer: impl Into<Vec<u8>>, seen: Seen) -> Case {
    Case {
        name,
        method: "GET",
        answer: answer.into(),
        after: After::Keep,
        seen,
    }
}

impl Case {
    fn to(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    fn then_closed(self) -> Self {
        let after = After::Close;
        Self { after, ..self }
    }

    /// Runs the case; an error says what went wrong.
    fn check(&self) -> Result<(), String> {
        let (answer, after) = (self.answer.clone(), self.after);
        let origin = Origin::scripted(move |exchange| {
            if exchange.index > 0 {
                exchange.write(CLEAN)?;
                return Ok(After::Keep);
            }
            // The gateway may close before it has taken all of this.
            let _ = exchange.write(&answer);
            Ok(after)
        });
        let config = Config::to(origin.url()).one_worker().admin("127.0.0.1:0");
        // Retries are tested elsewhere.
        let running = start(&config.upstream("retries = 0").route("/*", ""));
        let mut client = Client::connect(running.public);
        client.send(format!(
            "{} /first HTTP/1.1\r\nHost: a.test\r\n\r\nGET /second HTTP/1.1\r\nHost: a.test\r\n\r\n",
            self.method
        ));
        self.check_first(&mut client, &running)?;
        if !matches!(self.seen, Seen::Beginning) {
            is_clean(&client.try_answer().map_err(|x| format!("second: {x}"))?)?;
        }
        is_clean(&Client::connect(running.public).get("/third", ""))?;
        let seen = origin.requests();
        let bad = seen[0].connection;
        if seen[1..].iter().any(|x| x.connection == bad) {
            return Err("its connection was used again".into());
        }
        Ok(())
    }

    fn check_first(&self, client: &mut Client, running: &Running) -> Result<(), String> {
        let unread = |error: std::io::Error| error.to_string();
        match self.seen {
            Seen::BadGateway => {
                let answer = client.try_answer().map_err(unread)?;
                expect(answer.status, 502)?;
                running.wait_for_metric(r#"reason="bad_response",fault="upstream"} 1"#);
                Ok(())
            }
            Seen::Status(status, body) => {
                let answer = match self.method {
                    "HEAD" => client.answer_to_head(),
                    _ => client.try_answer().map_err(unread)?,
                };
                expect((answer.status, answer.text().as_str()), (status, body))
            }
            Seen::Beginning => match client.try_answer() {
                Ok(answer) => Err(format!("it looks complete: {answer:?}")),
                Err(error) if crate::support::wire::is_timeout(&error) => Err("it hangs".into()),
                Err(_) => expect(client.rest().as_slice(), b""),
            },
        }
    }
}

fn is_clean(answer: &Answer) -> Result<(), String> {
    expect((answer.status, answer.text().as_str()), (200, "clean"))
}

fn expect<T: Copy + PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{found:?} instead of {expected:?}"))
}

#[track_caller]
fn check(cases: &[Case]) {
    let failed: Vec<_> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.name, case.check().err()?)))
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn an_answer_whose_length_is_unclear_is_a_502_and_its_connection_ends() {
    let fields = |name, fields: &str, body: &str| {
        case(
            name,
            format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}"),
            Seen::BadGateway,
        )
    };
    check(&[
        fields(
            "length, then coding",
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "2\r\nok\r\n0\r\n\r\n",
        ),
        fields(
            "coding, then length",
            "Transfer-Encoding: chunked\r\nContent-Length: 4",
            "2\r\nok\r\n0\r\n\r\n",
        ),
        fields(
            "two lengths",
            "Content-Length: 2\r\nContent-Length: 3",
            "ok!",
        ),
        fields(
            "one length twice",
            "Content-Length: 2\r\nContent-Length: 2",
            "ok",
        ),
        fields("a list of lengths", "Content-Length: 2, 2", "ok"),
        fields("negative length", "Content-Length: -1", ""),
        fields("signed length", "Content-Length: +2", "ok"),
        fields("hexadecimal length", "Content-Length: 0x2", "ok"),
        fields("empty length", "Content-Length:", "ok"),
        fields("length in words", "Content-Length: two", "ok"),
        fields(
            "length beyond 64 bits",
            "Content-Length: 18446744073709551616",
            "ok",
        ),
        fields(
            "another coding first",
            "Transfer-Encoding: gzip, chunked",
            "0\r\n\r\n",
        ),
        fields(
            "chunked twice",
            "Transfer-Encoding: chunked, chunked",
            "0\r\n\r\n",
        ),
        fields(
            "chunked on two lines",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "0\r\n\r\n",
        ),
        fields("unknown coding", "Transfer-Encoding: xchunked", "0\r\n\r\n"),
        fields("identity", "Transfer-Encoding: identity", "ok"),
        fields(
            "coding with a vertical tab",
            "Transfer-Encoding: \x0bchunked",
            "0\r\n\r\n",
        ),
        case(
            "a coding in HTTP/1.0",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            Seen::BadGateway,
        ),
    ]);
}

#[test]
fn an_answer_that_is_not_http_is_a_502_and_its_connection_ends() {
    let head = |name, head: &[u8]| case(name, [head, b"\r\n\r\n"].concat(), Seen::BadGateway);
    let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(40 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}X: 1", "X: 1\r\n".repeat(200));
    check(&[
        head(
            "bare CR in a field",
            b"HTTP/1.1 200 OK\r\nX: a\rY: b\r\nContent-Length: 0",
        ),
        head(
            "NUL in a field",
            b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0",
        ),
        head(
            "folded field",
            b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0",
        ),
        head(
            "space before the colon",
            b"HTTP/1.1 200 OK\r\nContent-Length : 0",
        ),
        head(
            "field without a colon",
            b"HTTP/1.1 200 OK\r\nContent-Length 0",
        ),
        head(
            "status that is no number",
            b"HTTP/1.1 2x0 OK\r\nContent-Length: 0",
        ),
        head(
            "status of two digits",
            b"HTTP/1.1 20 OK\r\nContent-Length: 0",
        ),
        head(
            "status of four digits",
            b"HTTP/1.1 2000 OK\r\nContent-Length: 0",
        ),
        head("status below 100", b"HTTP/1.1 099 OK\r\nContent-Length: 0"),
        head("HTTP/2.0", b"HTTP/2.0 200 OK\r\nContent-Length: 0"),
        head("HTTP/1.32", b"HTTP/1.32 200 OK\r\nContent-Length: 0"),
        head("lower case", b"http/1.1 200 OK\r\nContent-Length: 0"),
        head("no head at all", b"<html>hello</html>"),
        head("TLS", b"\x15\x03\x01\x00\x02\x02\x46"),
        head("a head of 40 KiB", long.as_bytes()),
        head("201 fields", many.as_bytes()),
    ]);
}

#[test]
fn bytes_beyond_an_answer_are_nobodys_answer() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    check(&[
        case(
            "two answers",
            format!("{ok}{poison}"),
            Seen::Status(200, "ok"),
        ),
        case(
            "a body that is too long",
            format!("{ok}!"),
            Seen::Status(200, "ok"),
        ),
        case(
            "an empty line",
            format!("{ok}\r\n"),
            Seen::Status(200, "ok"),
        ),
        case(
            "beyond the last chunk",
            format!("{chunked}{poison}"),
            Seen::Status(200, "ok"),
        ),
        case(
            "204 and an answer",
            format!("HTTP/1.1 204 No Content\r\n\r\n{poison}"),
            Seen::Status(204, ""),
        ),
        case(
            "204 with a body",
            "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\npoison",
            Seen::Status(204, ""),
        ),
        case(
            "204 with chunks",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n6\r\npoison\r\n0\r\n\r\n",
            Seen::Status(204, ""),
        ),
        case(
            "204 that announces a body",
            "HTTP/1.1 204 No Content\r\nContent-Length: 6\r\n\r\n",
            Seen::Status(204, ""),
        ),
        case(
            "204 that announces chunks",
            "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
            Seen::Status(204, ""),
        ),
        case(
            "304 with a body",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison",
            Seen::Status(304, ""),
        ),
        case(
            "HEAD with a body",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison",
            Seen::Status(200, ""),
        )
        .to("HEAD"),
        case(
            "HEAD with chunks",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\npoison\r\n0\r\n\r\n",
            Seen::Status(200, ""),
        )
        .to("HEAD"),
    ]);
}

#[test]
fn an_answer_that_breaks_off_never_looks_complete() {
    let chunked = |name, chunks: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        case(name, format!("{head}{chunks}"), Seen::Beginning)
    };
    let tail = "0\r\n\r\n";
    check(&[
        chunked("a short chunk", "9\r\nshort").then_closed(),
        chunked("no line after the last chunk", "5\r\nshort\r\n0\r\n").then_closed(),
        chunked("a chunk that is too long", &format!("5\r\nshortXX{tail}")),
        chunked("a bare LF behind a chunk", &format!("5\r\nshort\n{tail}")),
        chunked(
            "a size with a prefix",
            &format!("5\r\nshort\r\n0x5\r\nshort\r\n{tail}"),
        ),
        chunked("a negative size", &format!("5\r\nshort\r\n-1\r\n{tail}")),
        chunked("a size that is none", &format!("5\r\nshort\r\nZ\r\n{tail}")),
        chunked(
            "a size beyond 64 bits",
            &format!("5\r\nshort\r\nFFFFFFFFFFFFFFFF0\r\nx\r\n{tail}"),
        ),
        chunked("an empty size", &format!("5\r\nshort\r\n\r\n{tail}")),
        chunked(
            "a trailer that is no field",
            "5\r\nshort\r\n0\r\nno field\r\n\r\n",
        ),
    ]);
}

/// Because bytes that arrive with the head are checked before the head is passed on.
#[test]
fn a_head_whose_body_is_broken_already_is_a_502() {
    let broken = |name, chunks: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        case(name, format!("{head}{chunks}"), Seen::BadGateway)
    };
    check(&[
        broken("a first size that is none", "Z\r\nshort\r\n0\r\n\r\n"),
        broken("a first size with a sign", "-1\r\nshort\r\n0\r\n\r\n"),
        broken("a last chunk without its line end", "0\r\nno field\r\n\r\n"),
    ]);
}
