"""WebSocket through a gateway, client and server of the `websockets` library.

    websockets_echo.py serve               prints its port; echoes, and ends with its standard input
    websockets_echo.py ask PORT [CA]       asks over HTTP/1.1
    websockets_echo.py tunnel PORT         asks over HTTP/2 (RFC 8441)
    websockets_echo.py hold PORT           prints a line when it is connected, and each message of the server
"""

import asyncio
import contextlib
import os
import ssl
import sys

import websockets
from hyperframe.frame import DataFrame, RstStreamFrame, SettingsFrame

import http2

SIZES = [0, 1, 125, 126, 65_535, 65_536, 1 << 20, 8 << 20]
MAX = 1 << 24
AT_ONCE = 50


async def echo(socket, path):
    if path == "/close":
        await socket.close(4321, "enough")
        return
    with contextlib.suppress(websockets.ConnectionClosed):
        async for message in socket:
            await socket.send(message)


async def serve():
    ended = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_reader(0, lambda: ended.done() or ended.set_result(None))
    protocols = ["chat", "superchat"]
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=MAX, subprotocols=protocols, ping_interval=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await ended


def connect(port, path="/", ca=None, **options):
    secure = {"ssl": ssl.create_default_context(cafile=ca)} if ca else {}
    url = f"{'wss' if ca else 'ws'}://localhost:{port}{path}"
    return websockets.connect(url, max_size=MAX, ping_interval=None, **secure, **options)


async def ask(port, ca=None):
    async with connect(port, ca=ca, subprotocols=["superchat"]) as socket:
        assert socket.subprotocol == "superchat", socket.subprotocol
        for size in SIZES:
            message = os.urandom(size)
            await socket.send(message)
            assert await socket.recv() == message, f"{size} bytes"
        await socket.send("é😀")
        assert await socket.recv() == "é😀"
        await socket.send(str(number) for number in range(100))
        assert await socket.recv() == "".join(map(str, range(100))), "a message in a hundred frames"
        await (await socket.ping(b"here"))
        # What nobody reads yet does not keep the other direction from passing.
        large = os.urandom(1 << 20)
        for _ in range(8):
            await socket.send(large)
        for _ in range(8):
            assert await socket.recv() == large
    assert socket.close_code == 1000, socket.close_code
    async with connect(port, "/close", ca) as socket:
        await socket.wait_closed()
        assert (socket.close_code, socket.close_reason) == (4321, "enough"), (socket.close_code, socket.close_reason)
    sockets = await asyncio.gather(*[connect(port, ca=ca, compression=None) for _ in range(AT_ONCE)])
    await asyncio.gather(*[socket.send(str(number)) for number, socket in enumerate(sockets)])
    assert await asyncio.gather(*[socket.recv() for socket in sockets]) == [str(number) for number in range(AT_ONCE)]
    await asyncio.gather(*[socket.close() for socket in sockets])


async def hold(port):
    async with connect(port) as socket:
        await socket.send("held")
        print(await socket.recv(), flush=True)
        await socket.wait_closed()
        print("closed", flush=True)


def data(connection, stream, length):
    """The next bytes of a stream, that many at least."""
    received = b""
    for frame in connection.frames():
        assert not isinstance(frame, RstStreamFrame), http2.ERRORS[frame.error_code]
        received += frame.data if isinstance(frame, DataFrame) and frame.stream_id == stream else b""
        if len(received) >= length:
            break
    return received


def tunnel(port):
    connection = http2.Connection(port)
    settings = next(frame for frame in connection.frames() if isinstance(frame, SettingsFrame))
    assert settings.settings.get(SettingsFrame.ENABLE_CONNECT_PROTOCOL) == 1, settings.settings
    stream = connection.stream()
    head = [
        (":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":path", "/"), (":authority", "a.test"),
        ("sec-websocket-version", "13"),
    ]
    connection.send(connection.head(stream, head, "END_HEADERS"))
    frame = next(frame for frame in connection.frames() if frame.stream_id == stream)
    assert dict(frame.fields)[":status"] == "200", frame.fields
    # A text of five bytes under a mask of zeros; it comes back without a mask.
    connection.send(DataFrame(stream, b"\x81\x85\0\0\0\0hello"))
    assert data(connection, stream, 7) == b"\x81\x05hello"
    assert connection.ask(http2.request("/plain"))[0] == "200", "other streams go on"
    connection.send(DataFrame(stream, b"\x88\x82\0\0\0\0\x03\xe8", flags=["END_STREAM"]))
    assert data(connection, stream, 4) == b"\x88\x02\x03\xe8"


def main():
    role, arguments = sys.argv[1], sys.argv[2:]
    if role == "serve":
        asyncio.run(serve())
    elif role == "ask":
        asyncio.run(ask(int(arguments[0]), *arguments[1:]))
    elif role == "hold":
        asyncio.run(hold(int(arguments[0])))
    else:
        tunnel(int(arguments[0]))


main()
