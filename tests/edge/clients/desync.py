"""Requests over HTTP/2 that an HTTP/1.1 origin could read as something else; each must be refused.

    desync.py PORT     prints a line for each request that is not, and how it was answered
"""

import sys

from hyperframe.frame import DataFrame, HeadersFrame

from http2 import Connection, Good, request

SMUGGLED = "\r\nhost: a.test\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a.test\r\n\r\n"


def without(name):
    return [field for field in request() if field[0] != name]


def with_pseudo(name, value):
    return [(key, value if key == name else old) for key, old in request()]


def with_field(name, value):
    return [*request(), (name, value)]


PATHS = [
    "", "foo", "*", "a.test", "http://a.test/", "?x", "/a b", "/a\tb", "/a\r\nx: y", "/a\nx: y", "/a\rb", "/a\0b", "/a\x7f",
    " /", "/ ", "/ HTTP/1.1" + SMUGGLED, "/?a b", "/?\r\nx: y",
]
METHODS = ["", "GE T", "GET ", " GET", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1" + SMUGGLED, "GET\r\n", "GET\0", "G\"T", "G(T)"]
AUTHORITIES = [
    "", "a b", "a.test ", " a.test", "a.test\r\nx: y", "a.test, b.test", "u@a.test", "u:p@a.test", "a.test/b", "a.test:x",
    "a.test:99999", "[::1", "a.test\0", "a.test?b", "a.test#b", "a.test" + SMUGGLED,
]
NAMES = [
    "", " ", "a b", "a:b", ":", "a\r\nb", "a\nb", "a\0b", "X-Upper", "Transfer-Encoding", "a\x7f", "transfer-encoding ",
    " transfer-encoding", "transfer-encoding:", "x: y\r\ntransfer-encoding", "\xe4", "a(b)", "a\tb", "a,b",
]
VALUES = [
    "\ta\t", " a", "a ", "\ta", "a\t", "a\r\nx: y", "a\nx: y", "a\rb", "a\0b", "a\r\n x", "\r\n", "a" + SMUGGLED, "a\x7fb", "a\x01b",
]
FIELDS = [
    ("connection", "close"), ("connection", "keep-alive, x-a"), ("keep-alive", "timeout=5"), ("proxy-connection", "close"),
    ("transfer-encoding", "chunked"), ("transfer-encoding", "identity"), ("upgrade", "h2c"), ("upgrade", "websocket"),
    ("te", "gzip"), ("te", "trailers, deflate"), ("te", "chunked"), ("host", "b.test"), ("host", "a.test, b.test"), ("host", ""),
    ("content-length", "+0"), ("content-length", "-1"), ("content-length", "0x0"), ("content-length", "0, 0"),
    ("content-length", "5"), ("content-length", "a"), ("content-length", ""), ("content-length", "18446744073709551616"),
    (":method", "GET"), (":path", "/b"), (":scheme", "http"), (":authority", "a.test"), (":status", "200"), (":x", "y"),
    (":protocol", "websocket"),
]


def heads():
    """Each bad head, and what is wrong with it."""
    for path in PATHS:
        yield f":path {path!r}", with_pseudo(":path", path)
    for method in METHODS:
        yield f":method {method!r}", with_pseudo(":method", method)
    for authority in AUTHORITIES:
        yield f":authority {authority!r}", with_pseudo(":authority", authority)
    for scheme in ["", "ht tp", "http\r\nx: y", "1http"]:
        yield f":scheme {scheme!r}", with_pseudo(":scheme", scheme)
    for name in NAMES:
        yield f"name {name!r}", with_field(name, "y")
    for value in VALUES:
        yield f"value {value!r}", with_field("x-a", value)
    for name, value in FIELDS:
        yield f"{name}: {value}", with_field(name, value)
    for name in [":method", ":scheme", ":path", ":authority"]:
        yield f"no {name}", without(name)
        yield f"{name} last", [*without(name), ("x-a", "y"), *[field for field in request() if field[0] == name]]
    yield "two hosts", [*request(), ("host", "a.test"), ("host", "a.test")]
    yield "two other hosts", [*without(":authority"), ("host", "a.test"), ("host", "b.test")]
    yield "two lengths", [*request(), ("content-length", "0"), ("content-length", "1")]
    yield "nothing", []


def is_refused(answer):
    return answer == "reset PROTOCOL_ERROR" or answer[0] == "400"


def bodies():
    """Bad requests whose head is good: each head's fields, and the frames behind it."""
    length = ("content-length", "5")
    yield "fewer bytes than announced", [length], lambda stream: [DataFrame(stream, b"abc", flags=("END_STREAM",))]
    yield "more bytes than announced", [length], lambda stream: [DataFrame(stream, b"abcdefgh", flags=("END_STREAM",))]
    yield "more bytes than announced, later", [length], lambda stream: [
        DataFrame(stream, b"abcde"), DataFrame(stream, b"fgh", flags=("END_STREAM",)),
    ]
    for name, value in [
        ("transfer-encoding", "chunked"), ("connection", "close"), ("X-Upper", "y"), ("a b", "y"), ("x-a", "a\r\nx: y"),
    ]:
        def trailers(stream, field=(name, value)):
            block = connection.encoder.encode([field], huffman=False)
            return [DataFrame(stream, b"abc"), HeadersFrame(stream, data=block, flags=("END_HEADERS", "END_STREAM"))]

        yield f"trailer {name}: {value!r}", [], trailers
    yield "trailers without an end", [], lambda stream: [
        DataFrame(stream, b"abc"), HeadersFrame(stream, data=connection.encoder.encode([("x-a", "y")]), flags=("END_HEADERS",)),
    ]


port, failed = int(sys.argv[1]), False
with Good(port, "/good"):
    for what, fields in heads():
        connection = Connection(port)
        answer = connection.ask(fields)
        if not is_refused(answer):
            failed = True
            print(f"{what}: {answer}")
    for what, fields, frames in bodies():
        connection = Connection(port)
        stream = connection.stream()
        head = connection.head(stream, request("/body", "POST", "a.test", *fields), "END_HEADERS")
        connection.send(head, *frames(stream))
        answer = connection.answer(stream)
        if not is_refused(answer):
            failed = True
            print(f"{what}: {answer}")
sys.exit(failed)
