"""A client of the `h2` library, which fails on whatever a server may not send.

    h2_client.py PORT exchange     bodies of many sizes at once, both ways, through windows of any size
    h2_client.py PORT stuff        uploads, each as far as its windows allow, to an origin that reads nothing
"""

import os
import random
import socket
import sys

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from h2.settings import SettingCodes

from http2 import PATIENCE

SIZES = [0, 1, 1000, 16_383, 16_384, 16_385, 65_535, 65_536, 300_000, 1 << 20, 8 << 20]
# More than the sockets in between hold.
STUFFED, STUFFING = 8, 16 << 20


class Exchange:
    """A body on its way to an origin that sends it back."""

    def __init__(self, size):
        self.left = self.body = os.urandom(size)
        self.received, self.status = [], None


class Client:
    def __init__(self, port, window):
        self.wire = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.h2 = H2Connection(H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.exchanges, self.ended = {}, 0
        self.flush()

    def flush(self):
        self.wire.sendall(self.h2.data_to_send())

    def begin(self, path, size):
        stream = self.h2.get_next_available_stream_id()
        self.exchanges[stream] = Exchange(size)
        head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a.test")]
        if random.random() < 0.5:
            head.append(("content-length", str(size)))
        self.h2.send_headers(stream, head)

    def upload(self):
        """Sends what windows allow, some of each stream in turn."""
        for stream, exchange in self.exchanges.items():
            while exchange.left is not None:
                room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
                if exchange.left and not room:
                    break
                piece, rest = exchange.left[:room], exchange.left[room:]
                exchange.left = rest or None
                self.h2.send_data(stream, piece, end_stream=not rest)
                self.flush()

    def read(self):
        """Reads once, and notes what came; each byte is given back to its window at once."""
        came = self.wire.recv(65536)
        assert came, "the connection ended"
        for event in self.h2.receive_data(came):
            assert not isinstance(event, (ConnectionTerminated, StreamReset, TrailersReceived)), event
            if isinstance(event, ResponseReceived):
                self.exchanges[event.stream_id].status = dict(event.headers)[":status"]
            if isinstance(event, DataReceived):
                self.exchanges[event.stream_id].received.append(event.data)
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if isinstance(event, StreamEnded):
                self.ended += 1
        self.flush()


def exchange(port):
    for window in [1, 100, 65_535, 1 << 20]:
        client = Client(port, window)
        sizes = [size for size in SIZES if size <= window * 2_000]
        for size in random.sample(sizes, len(sizes)):
            client.begin("/", size)
        while client.ended < len(sizes):
            client.upload()
            client.read()
        for exchange in client.exchanges.values():
            assert exchange.status == "200", exchange.status
            assert b"".join(exchange.received) == exchange.body, f"{len(exchange.body)} bytes, window {window}"


def stuff(port):
    client = Client(port, 65_535)
    for _ in range(STUFFED):
        client.begin("/", STUFFING)
    taken = -1
    while True:
        client.upload()
        left = sum(len(exchange.left or b"") for exchange in client.exchanges.values())
        if STUFFED * STUFFING - left == taken:
            break
        taken = STUFFED * STUFFING - left
        # What nothing comes back for in this time is not taken.
        client.wire.settimeout(0.5)
        try:
            while True:
                client.read()
                client.upload()
        except TimeoutError:
            pass
    assert left, "everything was taken"
    print(taken)


{"exchange": exchange, "stuff": stuff}[sys.argv[2]](int(sys.argv[1]))
