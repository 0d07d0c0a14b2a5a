"""Streams and heads up to their bounds and beyond, and clients that stop half way.

    streams.py PORT SCENARIO
"""

import sys

from hyperframe.frame import (
    ContinuationFrame, DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame,
)

from http2 import ERRORS, Connection, Good, request

STREAMS = 1000
STREAMS_MAX = 100


def crowd(port):
    """A thousand requests at once: a hundred are answered, the others refused, and the connection goes on."""
    connection = Connection(port)
    connection.send(*[connection.head(connection.stream(), request()) for _ in range(STREAMS)])
    answered, refused = 0, 0
    for frame in connection.frames():
        assert not isinstance(frame, GoAwayFrame), f"{ERRORS[frame.error_code]} after {refused} refusals"
        if isinstance(frame, SettingsFrame) and "ACK" not in frame.flags:
            assert frame.settings[SettingsFrame.MAX_CONCURRENT_STREAMS] == STREAMS_MAX, frame.settings
        if isinstance(frame, RstStreamFrame):
            assert ERRORS[frame.error_code] == "REFUSED_STREAM", ERRORS[frame.error_code]
            refused += 1
        if isinstance(frame, HeadersFrame):
            assert dict(frame.fields)[":status"] == "200", frame.fields
            answered += 1
        if answered + refused == STREAMS:
            break
    assert (answered, refused) == (STREAMS_MAX, STREAMS - STREAMS_MAX), (answered, refused)
    assert connection.ask(request())[0] == "200"


def heads(port):
    """Heads of up to `max_header_bytes` pass; longer ones are refused, however they are cut, and the next is good."""
    for value, count, is_good in [
        (1000, 20, True), (20_000, 1, True), (1000, 40, False), (40_000, 1, False), (0, 4000, False), (1_000_000, 1, False),
    ]:
        connection = Connection(port)
        fields = [(f"x-{number}", "v" * value) for number in range(count)]
        stream = connection.stream()
        block = connection.encoder.encode(request() + fields, huffman=False)
        pieces = [block[start:start + 16_384] for start in range(0, len(block), 16_384)]
        frames = [HeadersFrame(stream, data=pieces[0], flags=["END_STREAM"])]
        frames += [ContinuationFrame(stream, data=piece) for piece in pieces[1:]]
        frames[-1].flags.add("END_HEADERS")
        try:
            connection.send(*frames)
        except OSError:
            pass
        answer = connection.answer(stream)
        if is_good:
            assert answer[0] == "200", (value, count, answer)
        else:
            refused = answer[0] == "431" or answer.split()[0] in ("reset", "goaway", "closed")
            assert refused, (value, count, answer)


def unopened(port):
    """A hundred answers for which no window is ever opened: each is reset, and a good client is served meanwhile."""
    connection = Connection(port, {SettingsFrame.INITIAL_WINDOW_SIZE: 0})
    streams = [connection.stream() for _ in range(STREAMS_MAX)]
    connection.send(*[connection.head(stream, request("/large")) for stream in streams])
    heads, resets = 0, 0
    with Good(port):
        for frame in connection.frames():
            heads += isinstance(frame, HeadersFrame)
            resets += isinstance(frame, RstStreamFrame)
            assert not isinstance(frame, DataFrame), "bytes that no window is open for"
            if resets == STREAMS_MAX:
                break
    assert (heads, resets) == (STREAMS_MAX, STREAMS_MAX), (heads, resets)


def slow_reader(port):
    """A client that opens its windows a byte at a time gets what it opened them for, and no more."""
    connection = Connection(port, {SettingsFrame.INITIAL_WINDOW_SIZE: 1})
    stream = connection.stream()
    connection.send(connection.head(stream, request()))
    body = b""
    for frame in connection.frames():
        if isinstance(frame, DataFrame) and frame.stream_id == stream:
            assert len(frame.data) <= 1, frame.data
            body += frame.data
            if "END_STREAM" in frame.flags:
                break
            connection.send(WindowUpdateFrame(stream, window_increment=1))
    assert body == b"ok", body


def aborts(port):
    """What is broken off on one side is broken off on the other, and the connection goes on."""
    connection = Connection(port)
    for half in range(3):
        stream = connection.stream()
        head = connection.head(stream, request("/upload", "POST", "a.test", ("content-length", "1000")), "END_HEADERS")
        connection.send(head, DataFrame(stream, b"x" * half), RstStreamFrame(stream, error_code=ERRORS.index("CANCEL")))
        assert connection.ask(request())[0] == "200"
        # Its head says 200, its body ends early.
        answer = connection.ask(request("/broken"))
        assert answer.startswith("reset"), answer
        # This one answers before it has read what it is sent.
        stream = connection.stream()
        head = connection.head(stream, request("/early", "POST"), "END_HEADERS")
        connection.send(head, DataFrame(stream, b"x" * 10_000))
        answer = connection.answer(stream)
        assert answer[0] == "403", answer
        assert connection.ask(request())[0] == "200"


globals()[sys.argv[2]](int(sys.argv[1]))
