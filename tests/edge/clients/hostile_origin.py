"""An HTTP/2 origin whose answers HTTP/1.1 could not say, or a client would read as something else.

    hostile_origin.py      prints its port, then the path of each bad answer; ends with its standard input
"""

import socket
import sys
import threading

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame, DataFrame, Frame, GoAwayFrame, HeadersFrame, PushPromiseFrame, RstStreamFrame, SettingsFrame,
)

OK = [(":status", "200")]
INJECTED = "a\r\nx-injected: y\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
ENDS = ["END_HEADERS", "END_STREAM"]
NAMES = [
    "X-Upper", "a b", "", ":", "a:b", "a\r\nb", "a\nb", "a\0b", "transfer-encoding ", "\xe4", "a\"b", "a\x7fb", "a,b", "a/b", "a{b",
]
VALUES = [INJECTED, "a\rb", "a\nb", "a\0b", "a\x7fb", "\x01"]
FIELDS = [
    ("connection", "close"), ("transfer-encoding", "chunked"), ("keep-alive", "timeout=5"), ("proxy-connection", "close"),
    ("upgrade", "h2c"), (":status", "200"), (":x", "y"), ("content-length", "+0"),
    ("content-length", "-1"), ("content-length", "0, 1"), ("content-length", "x"),
]
STATUSES = ["", "abc", "99", "1000", "200 OK", "-200", "101", "2 0", "200\r\nx: y"]


class Origin:
    def __init__(self, wire):
        self.wire, self.encoder, self.decoder = wire, Encoder(), Decoder()

    def send(self, *frames):
        self.wire.sendall(b"".join(frame.serialize() for frame in frames))

    def head(self, stream, fields, flags=ENDS):
        return HeadersFrame(stream, data=self.encoder.encode(fields, huffman=False), flags=flags)

    def exactly(self, length):
        taken = b""
        while len(taken) < length:
            piece = self.wire.recv(length - len(taken))
            if not piece:
                raise ConnectionError
            taken += piece
        return taken

    def serve(self):
        self.exactly(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        self.send(SettingsFrame())
        while True:
            frame, length = Frame.parse_frame_header(memoryview(self.exactly(9)))
            frame.parse_body(memoryview(self.exactly(length)))
            if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
                self.send(SettingsFrame(flags=["ACK"]))
            if isinstance(frame, HeadersFrame):
                path = dict(self.decoder.decode(frame.data))[":path"]
                CASES.get(path, good)(self, frame.stream_id)


def good(origin, stream):
    origin.send(origin.head(stream, [*OK, ("content-length", "2")], ["END_HEADERS"]), DataFrame(stream, b"ok", flags=["END_STREAM"]))


def answer(fields):
    return lambda origin, stream: origin.send(origin.head(stream, fields))


def body(length, *frames):
    def send(origin, stream):
        head = origin.head(stream, [*OK, *([("content-length", length)] if length else [])], ["END_HEADERS"])
        origin.send(head, *[frame(stream) for frame in frames])

    return send


def trailers(field):
    def send(origin, stream):
        head = origin.head(stream, OK, ["END_HEADERS"])
        origin.send(head, DataFrame(stream, b"half"), origin.head(stream, [field]))

    return send


def interim(field):
    def send(origin, stream):
        origin.send(origin.head(stream, [(":status", "103"), field], ["END_HEADERS"]))
        good(origin, stream)

    return send


def huge(origin, stream):
    block = origin.encoder.encode([*OK, *[(f"x-{number}", "v" * 1000) for number in range(1000)]], huffman=False)
    pieces = [block[start:start + 16_384] for start in range(0, len(block), 16_384)]
    frames = [ContinuationFrame(stream, piece) for piece in pieces[1:]]
    frames[-1].flags.add("END_HEADERS")
    origin.send(HeadersFrame(stream, data=pieces[0], flags=["END_STREAM"]), *frames)


def end(stream):
    return DataFrame(stream, b"", flags=["END_STREAM"])


CASES = {}
for number, fields in enumerate(
    [[*OK, (name, "y")] for name in NAMES] + [[*OK, ("x-a", value)] for value in VALUES] + [[*OK, field] for field in FIELDS]
    + [[(":status", status)] for status in STATUSES] + [[], [("x-a", "y")], [("x-a", "y"), *OK]]
    + [[*OK, ("content-length", "0"), ("content-length", "0")], [*OK, ("content-length", "0, 0")], [*OK, *[("x-a", "1")] * 101]]
):
    CASES[f"/head-{number}"] = answer(fields)
for number, name in enumerate(NAMES):
    CASES[f"/head-interim-{number}"] = interim((name, "y"))
    CASES[f"/trailers-{number}"] = trailers((name, "y"))
CASES |= {
    "/short": body("5", lambda stream: DataFrame(stream, b"abc"), end),
    "/long": body("5", lambda stream: DataFrame(stream, b"abcdefgh"), end),
    "/nothing": body("5", end),
    "/reset": body(None, lambda stream: DataFrame(stream, b"half"), lambda stream: RstStreamFrame(stream, error_code=2)),
    "/reset-at-once": lambda origin, stream: origin.send(RstStreamFrame(stream, error_code=2)),
    "/goaway": body(None, lambda stream: DataFrame(stream, b"half"), lambda _: GoAwayFrame(0, last_stream_id=0, error_code=2)),
    "/data-first": lambda origin, stream: origin.send(DataFrame(stream, b"early"), origin.head(stream, OK)),
    "/garbage": lambda origin, stream: origin.wire.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
    "/hpack": lambda origin, stream: origin.send(HeadersFrame(stream, data=b"\xff\xff\xff\xff\x0f", flags=ENDS)),
    "/push": lambda origin, stream: origin.send(
        PushPromiseFrame(stream, promised_stream_id=2, data=origin.encoder.encode([(":path", "/x")]), flags=["END_HEADERS"]),
    ),
    "/trailers-value": trailers(("x-a", INJECTED)),
    "/trailers-connection": trailers(("connection", "close")),
    "/huge": huge,
}


def quietly(wire):
    with wire:
        try:
            Origin(wire).serve()
        except OSError:
            pass


def accept(listener):
    while True:
        threading.Thread(target=quietly, args=(listener.accept()[0],), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1])
print(" ".join(CASES), flush=True)
threading.Thread(target=accept, args=(listener,), daemon=True).start()
sys.stdin.read()
