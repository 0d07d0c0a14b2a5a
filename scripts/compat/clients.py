"""Python's clients: each makes its requests and fails where an answer is not what it should be.

    clients.py CLIENT URL CA VERSION
"""

import asyncio
import os
import ssl
import sys

BODY = os.urandom(1 << 20)
FILE = 100_000


def check(ask, name):
    """`ask` makes a request of (method, path, body), and returns status and body."""
    assert ask("POST", "/node/echo", BODY) == (200, BODY)
    assert ask("GET", "/nginx/file", None) == (200, b"x" * FILE)
    assert all(ask("GET", "/nginx/file", None)[0] == 200 for _ in range(100))
    assert [ask("GET", f"/limited/{name}", None)[0] for _ in range(2)] == [200, 429]


def requests(url, ca, version):
    import requests

    session = requests.Session()
    session.verify = ca
    # Or the environment names other authorities.
    session.trust_env = False

    def ask(method, path, body):
        answer = session.request(method, url + path, data=body, timeout=20)
        assert answer.raw.version == 11, answer.raw.version
        return answer.status_code, answer.content

    check(ask, f"requests-{url.split(':')[0]}")


def httpx(url, ca, version):
    import httpx

    trusted = ssl.create_default_context(cafile=ca)
    with httpx.Client(http1=version == "1.1", http2=version == "2", verify=trusted, timeout=20) as client:

        def ask(method, path, body):
            answer = client.request(method, url + path, content=body)
            assert answer.http_version == ("HTTP/2" if version == "2" else "HTTP/1.1"), answer.http_version
            return answer.status_code, answer.content

        check(ask, f"httpx-{version}-{url.split(':')[0]}")


def websockets(url, ca, version):
    from websockets.asyncio.client import connect

    async def talk():
        options = {"ssl": ssl.create_default_context(cafile=ca)} if url.startswith("https") else {}
        async with connect(url.replace("http", "ws") + "/node/socket", max_size=None, **options) as socket:
            for size in [0, 1, 126, 65_536, 1 << 20]:
                await socket.send(BODY[:size])
                assert await socket.recv() == BODY[:size], size
            await socket.send("é😀")
            assert await socket.recv() == "é😀"
        assert socket.close_code == 1000

    asyncio.run(talk())


globals()[sys.argv[1]](*sys.argv[2:])
