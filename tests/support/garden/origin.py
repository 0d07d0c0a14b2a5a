# Answers with the path as Python's own means read it, a line each: the reader, then bytes in hex.
import http.server
import sys
import threading
import urllib.parse
import wsgiref.simple_server


def readings(target):
    path = target.partition("?")[0]
    yield "python-path", path.encode("latin-1")
    yield "python-unquoted", urllib.parse.unquote_to_bytes(path.encode("latin-1"))
    split = urllib.parse.urlsplit(target).path
    yield "python-urlsplit", split.encode("latin-1")
    # urlparse takes the parameters of the last segment off.
    parsed = urllib.parse.urlparse(target).path
    yield "python-urlparse", parsed.encode("latin-1")


def lines(pairs):
    return "".join(f"{name} {path.hex()}\n" for name, path in pairs).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        body = lines(readings(self.path))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Echo(http.server.BaseHTTPRequestHandler):
    """Answers with the whole request as it was read, whatever its method is."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.echo
        raise AttributeError(name)

    def echo(self):
        read = self.chunks() if "Transfer-Encoding" in self.headers else self.content()
        head = f"{self.command} {self.path}\n{self.headers['Host']}\n"
        body = head.encode() + read
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Read", body.hex())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def content(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline() != b"\r\n":
            pass
        return body

    def log_message(self, *_):
        pass


def application(environ, start_response):
    # WSGI decodes: PATH_INFO is what Flask, Django and others match.
    path = environ["PATH_INFO"].encode("latin-1")
    body = lines([("wsgi-path-info", path)])
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


class WsgiHandler(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


class WsgiServer(http.server.ThreadingHTTPServer, wsgiref.simple_server.WSGIServer):
    pass


plain = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
wsgi = WsgiServer(("127.0.0.1", 0), WsgiHandler)
wsgi.set_app(application)
echo = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
for server in plain, wsgi, echo:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
# The test holds the other end: no test, no origin.
sys.stdin.read()
