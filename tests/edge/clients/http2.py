"""An HTTP/2 client that sends exactly the frames it is told to, and reads what comes back.

    http2.py PORT < REQUESTS     prints what comes of each, both as JSON
"""

import json
import socket
import ssl
import sys
import threading

from hpack import Decoder, Encoder
from hyperframe.frame import (
    DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame,
)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Longest that a client waits for what must happen; reaching it is a failure.
PATIENCE = 20
ERRORS = (
    "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR "
    "REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED"
).split()


def request(path="/", method="GET", authority="a.test", *fields):
    """The fields of a request, pseudo-header fields first."""
    head = [(":method", method), (":scheme", "http"), (":path", path), (":authority", authority)]
    return head + list(fields)


class Connection:
    """A connection that has sent its preface and SETTINGS."""

    def __init__(self, port, settings=None, tls=None):
        self.wire = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.create_default_context(cafile=tls)
            context.set_alpn_protocols(["h2"])
            self.wire = context.wrap_socket(self.wire, server_hostname="localhost")
            assert self.wire.selected_alpn_protocol() == "h2", self.wire.selected_alpn_protocol()
        self.encoder, self.decoder = Encoder(), Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.buffer = b""
        self.next_stream = 1
        self.wire.sendall(PREFACE)
        self.send(SettingsFrame(settings=settings or {}))

    def send(self, *frames):
        self.wire.sendall(b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in frames))

    def stream(self):
        """A new stream's number."""
        self.next_stream += 2
        return self.next_stream - 2

    def head(self, stream, fields, *flags):
        """A whole head that ends the request, unless `flags` say otherwise."""
        block = self.encoder.encode(fields, huffman=False)
        return HeadersFrame(stream, data=block, flags=flags or ("END_HEADERS", "END_STREAM"))

    def frame(self):
        """The next frame, or none at the connection's end."""
        head = self.exactly(9)
        if head is None:
            return None
        frame, length = Frame.parse_frame_header(memoryview(head))
        body = self.exactly(length)
        if body is None:
            return None
        frame.parse_body(memoryview(body))
        if isinstance(frame, HeadersFrame):
            # Every block has to be read, since later ones refer to it.
            frame.fields = self.decoder.decode(frame.data)
        return frame

    def exactly(self, length):
        while len(self.buffer) < length:
            try:
                piece = self.wire.recv(65536)
            except (ConnectionError, ssl.SSLError):
                return None
            if not piece:
                return None
            self.buffer += piece
        taken, self.buffer = self.buffer[:length], self.buffer[length:]
        return taken

    def frames(self):
        """All frames to the connection's end."""
        while (frame := self.frame()) is not None:
            yield frame

    def answer(self, stream):
        """What comes of a request: (status, fields, body), or a word that says how it ended."""
        head, body = None, b""
        for frame in self.frames():
            if isinstance(frame, GoAwayFrame) and frame.error_code:
                return f"goaway {ERRORS[frame.error_code]}"
            if frame.stream_id != stream:
                continue
            if isinstance(frame, RstStreamFrame):
                return f"reset {ERRORS[frame.error_code]}"
            if isinstance(frame, HeadersFrame):
                head = head or dict(frame.fields)
            if isinstance(frame, DataFrame):
                body += frame.data
                if frame.flow_controlled_length:
                    self.send(WindowUpdateFrame(stream, window_increment=frame.flow_controlled_length))
                    self.send(WindowUpdateFrame(0, window_increment=frame.flow_controlled_length))
            if "END_STREAM" in frame.flags:
                return head.pop(":status"), head, body
        return "closed"

    def ask(self, fields, body=None):
        """Sends a whole request, and returns what comes of it."""
        stream = self.stream()
        if body is None:
            self.send(self.head(stream, fields))
        else:
            self.send(self.head(stream, fields, "END_HEADERS"), DataFrame(stream, body, flags=("END_STREAM",)))
        return self.answer(stream)

    def ask_for(self, fields, body=None, trailers=None):
        """The same from JSON: lists of pairs, and text."""
        stream = self.stream()
        has_more = body is not None or trailers is not None
        self.send(self.head(stream, fields, "END_HEADERS", *[] if has_more else ["END_STREAM"]))
        if body is not None:
            self.send(DataFrame(stream, body.encode(), flags=[] if trailers else ["END_STREAM"]))
        if trailers:
            self.send(self.head(stream, trailers))
        return self.answer(stream)

    def is_alive(self):
        """Whether a PING is answered; everything before it has then been read."""
        try:
            self.send(PingFrame(0, opaque_data=b"is alive"))
        except (ConnectionError, ssl.SSLError):
            return False
        for frame in self.frames():
            if isinstance(frame, PingFrame) and "ACK" in frame.flags and frame.opaque_data == b"is alive":
                return True
            if isinstance(frame, GoAwayFrame):
                return False
        return False

    def close(self):
        self.wire.close()


class Listening(threading.Thread):
    """Reads what a connection is sent while another thread sends, and remembers how it ended."""

    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection, self.frames, self.goaway = connection, 0, None
        self.resets = {}
        self.start()

    def run(self):
        for frame in self.connection.frames():
            self.frames += 1
            if isinstance(frame, RstStreamFrame):
                code = ERRORS[frame.error_code]
                self.resets[code] = self.resets.get(code, 0) + 1
            if isinstance(frame, GoAwayFrame):
                self.goaway = ERRORS[frame.error_code]


class Good:
    """A client that asks all the time, over one connection; each of its answers must be 200."""

    def __init__(self, port, path="/"):
        self.port, self.path = port, path
        self.answers, self.failure = 0, None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            connection = Connection(self.port)
            while not self.stopped.is_set():
                answer = connection.ask(request(self.path))
                assert answer[0] == "200", answer
                self.answers += 1
        except Exception as error:  # Whatever it is, the test shows it.
            self.failure = error

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.stopped.set()
        self.thread.join(PATIENCE)
        if not any(exception):
            assert self.failure is None and self.answers, f"the good client: {self.answers} answers, {self.failure!r}"


def main():
    connection = Connection(int(sys.argv[1]))
    answers = []
    for asked in json.load(sys.stdin):
        answer = connection.ask_for(**asked)
        if not isinstance(answer, str):
            answer = [answer[0], answer[1], answer[2].decode()]
        answers.append(answer)
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
