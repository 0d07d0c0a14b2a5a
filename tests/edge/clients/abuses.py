"""What hostile clients do over HTTP/2, a number of frames each, beside a client that behaves.

    abuses.py PORT FRAMES ABUSE     prints how its connections ended
"""

import json
import socket
import sys

from hyperframe.frame import (
    ContinuationFrame, DataFrame, HeadersFrame, PingFrame, PriorityFrame, RstStreamFrame, SettingsFrame,
    WindowUpdateFrame,
)

from http2 import PATIENCE, Connection, Good, Listening, request

ABUSED = request("/abused")
# Frames that are written at once; how the gateway ends the connection is seen behind them.
BATCH = 100
# The most that a dynamic table holds, less what an entry costs.
ENTRY = 4096 - 32 - len("bomb")
# A reference to the newest entry of the dynamic table.
NEWEST = b"\xbe"


def raw(kind, stream, payload=b"", flags=0):
    """A frame of any type with any payload."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def reset_by(*cause):
    """A request and what makes the gateway reset its stream (MadeYouReset)."""

    def frames(connection):
        stream = connection.stream()
        return [connection.head(stream, ABUSED)] + [make(stream) for make in cause]

    return frames


def bomb(connection):
    """A head of 16 KiB that expands to 60 MiB (in the first of a connection, the entry that it refers to)."""
    stream = connection.stream()
    block = connection.encoder.encode([*ABUSED, ("bomb", "x" * ENTRY)], huffman=False)
    block += NEWEST * (16_384 - len(block))
    return [HeadersFrame(stream, data=block, flags=("END_HEADERS", "END_STREAM"))]


def upload(connection):
    connection.uploading = connection.stream()
    head = connection.head(connection.uploading, request("/abused", "POST"), "END_HEADERS")
    return [head]


def endless_head(connection):
    connection.uploading = connection.stream()
    return [connection.head(connection.uploading, ABUSED, "END_STREAM")]


def on_upload(make):
    return lambda connection: [make(connection.uploading)]


def nothing(_):
    return []


# What a connection begins with, what is repeated, and whether the gateway must end it for that.
ABUSES = {
    "rapid-reset": (nothing, reset_by(lambda stream: RstStreamFrame(stream, error_code=8)), True),
    "made-reset-by-window": (nothing, reset_by(lambda stream: raw(8, stream, bytes(4))), True),
    "made-reset-by-overflow": (
        nothing, reset_by(lambda stream: WindowUpdateFrame(stream, window_increment=(1 << 31) - 1)), False,
    ),
    "made-reset-by-data": (nothing, reset_by(lambda stream: DataFrame(stream, b"more")), False),
    "made-reset-by-no-method": (
        nothing, lambda connection: [connection.head(connection.stream(), ABUSED[1:])], True,
    ),
    "continuation-empty": (endless_head, on_upload(lambda stream: ContinuationFrame(stream)), False),
    "continuation-small": (
        endless_head, on_upload(lambda stream: ContinuationFrame(stream, b"\x00\x01a" + b"\x7f\x81\x07" + b"a" * 1024)),
        False,
    ),
    "ping": (nothing, lambda _: [PingFrame(0, opaque_data=b"flooding")], False),
    "settings": (nothing, lambda _: [SettingsFrame(settings={SettingsFrame.INITIAL_WINDOW_SIZE: 65535})], False),
    "priority": (upload, lambda _: [PriorityFrame(1, depends_on=3, stream_weight=7)], False),
    "idle-priority": (nothing, lambda connection: [PriorityFrame(connection.stream(), stream_weight=7)], False),
    "empty-data": (upload, on_upload(lambda stream: DataFrame(stream, b"")), False),
    "padded-data": (upload, on_upload(lambda stream: DataFrame(stream, b"", pad_length=200, flags=("PADDED",))), False),
    "window-update": (upload, on_upload(lambda stream: WindowUpdateFrame(stream, window_increment=1)), False),
    "unknown": (nothing, lambda _: [raw(0xBB, 0, b"?" * 8)], False),
    "hpack-bomb": (nothing, bomb, False),
}


def flood(port, count, abuse):
    """Sends so many frames, over as many connections as it takes; returns how they ended."""
    begin, repeat, must_end = ABUSES[abuse]
    ends, sent, connections = {}, 0, []
    while sent < count:
        connection = Connection(port)
        listening = Listening(connection)
        connections.append(connection)
        try:
            connection.send(*begin(connection))
            while sent < count and listening.is_alive():
                frames = [frame for _ in range(BATCH) for frame in repeat(connection)]
                sent += len(frames)
                connection.send(*frames)
        except ConnectionError:
            pass
        # It has read everything that was sent, or ended the connection.
        try:
            connection.send(PingFrame(0, opaque_data=b"finished"))
            connection.wire.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        listening.join(PATIENCE)
        assert not listening.is_alive(), "the connection stays open behind its client's end"
        ends[listening.goaway] = ends.get(listening.goaway, 0) + 1
    errors = set(ends) - {None, "NO_ERROR"}
    assert errors or not must_end, f"nothing ends them: {ends}"
    return ends


def flood_unread(port, count, abuse):
    """The same over one connection whose answers are never read; ends when nothing more is taken."""
    begin, repeat, _ = ABUSES[abuse]
    connection = Connection(port)
    connection.wire.settimeout(2)
    sent = 0
    try:
        connection.send(*begin(connection))
        while sent < count:
            connection.send(*[frame for _ in range(BATCH) for frame in repeat(connection)])
            sent += BATCH
    except OSError:
        pass
    return {"taken": sent}


def main():
    port, count, abuse = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with Good(port) as good:
        if abuse.endswith("-unread"):
            ends = flood_unread(port, count, abuse.removesuffix("-unread"))
        else:
            ends = flood(port, count, abuse)
        # It is answered behind the abuse too.
        answered = good.answers
        while good.failure is None and good.answers == answered:
            good.stopped.wait(0.01)
    print(json.dumps({"abuse": abuse, "ends": {str(end): times for end, times in ends.items()}, "good": good.answers}))


if __name__ == "__main__":
    main()
