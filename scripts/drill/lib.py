"""What the drills share: a gateway and an origin of their own, a steady client, readings from /proc.

Everything runs on loopback, is bounded in number and in time, and ends with the drill. A drill
prints figures, then one line per claim, and exits with 0 only if every claim holds.
"""

import multiprocessing
import os
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
# A fork shares the parent's module state, so that children need no arguments beyond their own.
spawn = multiprocessing.get_context("fork")


def binary():
    """The release binary: $TOLLGATE, or the project's own, built if need be."""
    named = os.environ.get("TOLLGATE")
    if named:
        return os.path.abspath(named)
    # Not quiet: it takes minutes if the source has changed.
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(target, "release", "tollgate")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def descriptors(wanted):
    """Raises this process's limit of open files to `wanted`, or as far as it may; returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in ((wanted, max(hard, wanted)), (min(hard, wanted), hard)):
        try:
            if limit[0] > soft:
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            break
        except (ValueError, PermissionError):
            continue
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Gateway:
    """A release gateway on free ports; `config` has no listener address and no admin table.

    It runs in a folder of its own, where `gateway.log` is the log that `log_lines` reads. `before` are words
    in front of its command; what they run must become the gateway by exec.
    """

    def __init__(self, config, open_files=None, before=(), environment=None, program=None, token=None):
        self.directory = tempfile.TemporaryDirectory(prefix="tollgate-drill-")
        self.file = os.path.join(self.directory.name, "gateway.toml")
        self.log = os.path.join(self.directory.name, "gateway.log")
        self.public, self.admin, self.token = free_port(), free_port(), token
        self.rewrite(config)
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))) if open_files else None
        self.process = subprocess.Popen(
            [*before, program or binary(), "run", "--config", self.file],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limit, cwd=self.directory.name,
            env={**os.environ, **(environment or {})}, start_new_session=True,
        )
        self.pid = self.process.pid
        until(10, lambda: self.ask_admin("/readyz")[0] == 200, "the gateway is ready")

    def rewrite(self, config):
        config = config.replace("[listeners.public]", f'[listeners.public]\naddress = "127.0.0.1:{self.public}"')
        with open(self.file, "w") as file:
            file.write(f'{config}\n[admin]\naddress = "127.0.0.1:{self.admin}"\n')
            if self.token:
                file.write(f'token = "{self.token}"\n')

    def ask_admin(self, path, timeout=5):
        """Status and body, or (0, why not)."""
        try:
            with socket.create_connection(("127.0.0.1", self.admin), timeout) as wire:
                wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while piece := wire.recv(65536):
                    answer += piece
            return int(answer.split(b" ", 2)[1]), answer.split(b"\r\n\r\n", 1)[1].decode()
        except (OSError, IndexError, ValueError) as error:
            return 0, str(error)

    def metric(self, name):
        """The sum of a metric's samples."""
        lines = self.ask_admin("/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self):
        return memory_of(self.pid)

    def log_lines(self):
        try:
            with open(self.log) as log:
                return log.read().splitlines()
        except FileNotFoundError:
            return []

    def stop(self):
        """Ends it, and those that have taken over from it."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        until(5, lambda: not self.lives(), "all processes have ended")
        self.directory.cleanup()

    def lives(self):
        """Whether it, or a process that has taken over from it, lives."""
        return bool(self.processes())

    def processes(self):
        """It and those that have taken over from it, if they live."""
        living = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[2] == str(self.pid) and fields[0] != "Z":
                living.append(int(pid))
        return living


def memory_of(pid):
    """A process's resident bytes, counted in proportion where shared (PSS)."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        for line in rollup:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no Pss in smaps_rollup")


def kernel_socket_bytes():
    """Memory of all TCP sockets of the machine's network namespace."""
    with open("/proc/net/sockstat") as stat:
        for line in stat:
            if line.startswith("TCP:"):
                words = line.split()
                return int(words[words.index("mem") + 1]) * PAGE
    return 0


def until(seconds, condition, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    sys.exit(f"never happened within {seconds} s: {what}")


def certificate(folder, name, *extensions):
    """Makes one for localhost, signed by itself; returns its path and that of its key."""
    made, key = os.path.join(folder, f"{name}.crt"), os.path.join(folder, f"{name}.key")
    command = "openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 2 -subj /CN=localhost"
    more = [word for extension in extensions for word in ("-addext", extension)]
    subprocess.run([*command.split(), *more, "-keyout", key, "-out", made], check=True, capture_output=True)
    return made, key


def children(count, work, *arguments):
    """Starts processes that run work(index, *arguments)."""
    started = [spawn.Process(target=work, args=(index, *arguments), daemon=True) for index in range(count)]
    for child in started:
        child.start()
    return started


def end(processes):
    for process in processes:
        process.terminate()
        process.join()


LARGE = 64 << 20


def origin(port, ready, yields):
    """Answers: GET /large with LARGE bytes, anything else with 2, once its body has been read.

    On SIGUSR1 it resets all connections.
    """
    descriptors(30_000)
    os.nice(yields)
    piece = bytes(256 * 1024)
    poll, told = selectors.DefaultSelector(), []
    signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
    awake, waker = socket.socketpair()
    awake.setblocking(False)
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    poll.register(awake, selectors.EVENT_READ, None)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(4096)
        listener.setblocking(False)
        poll.register(listener, selectors.EVENT_READ, None)
        ready.set()
        while True:
            for key, events in poll.select():
                if key.fileobj is awake:
                    awake.recv(64)
                elif key.data is None:
                    accept_all(listener, poll)
                elif not converse(key.fileobj, key.data, events, piece, poll):
                    poll.unregister(key.fileobj)
                    key.fileobj.close()
            while told and told.pop():
                for wire in [key.fileobj for key in poll.get_map().values() if key.data]:
                    # Closed without lingering, a connection is reset.
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    poll.unregister(wire)
                    wire.close()


def accept_all(listener, poll):
    while True:
        try:
            wire, _ = listener.accept()
        except OSError:
            return
        wire.setblocking(False)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Elsewhere its buffers would be another machine's; here filling them is load beside what is measured.
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        # What is buffered of a head, bytes of a body to come, bytes of an answer to go.
        poll.register(wire, selectors.EVENT_READ, {"head": b"", "body": 0, "answer": 0, "large": False})


def converse(wire, state, events, piece, poll):
    """Reads and writes what can be; false when the connection is over."""
    try:
        if events & selectors.EVENT_READ:
            came = wire.recv(65536)
            if not came:
                return False
            if state["body"]:
                state["body"] -= len(came)
            else:
                state["head"] += came
                if b"\r\n\r\n" not in state["head"]:
                    return True
                head, rest = state["head"].split(b"\r\n\r\n", 1)
                lowered = head.lower()
                length = 0
                if b"content-length:" in lowered:
                    length = int(lowered.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
                state.update(head=b"", body=length - len(rest), large=head.startswith(b"GET /large"))
            if state["body"] > 0:
                return True
            length = LARGE if state["large"] else 2
            wire.send(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode())
            if not state["large"]:
                wire.send(b"ok")
                return True
            state["answer"] = LARGE
            poll.modify(wire, selectors.EVENT_READ | selectors.EVENT_WRITE, state)
        if events & selectors.EVENT_WRITE and state["answer"]:
            state["answer"] -= wire.send(memoryview(piece)[: state["answer"]])
            if not state["answer"]:
                poll.modify(wire, selectors.EVENT_READ, state)
        return True
    except BlockingIOError:
        return True
    except OSError:
        return False


def start_origin(yields=0):
    """Starts an origin, so much less urgent than this process; returns its process and its port."""
    port, ready = free_port(), spawn.Event()
    process = spawn.Process(target=origin, args=(port, ready, yields), daemon=True)
    process.start()
    ready.wait(10)
    return process, port


def read_answer(wire):
    """Reads one answer with a length; returns its status."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = wire.recv(65536)
        if not piece:
            raise ConnectionError("closed within a head")
        answer += piece
    head, body = answer.split(b"\r\n\r\n", 1)
    length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    left = length - len(body)
    while left > 0:
        piece = wire.recv(65536)
        if not piece:
            raise ConnectionError("closed within a body")
        left -= len(piece)
    return int(head.split(b" ", 2)[1])


def answer_of(wire):
    """Status and fields of one answer, which has a length or no body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = wire.recv(1)
        if not piece:
            raise ConnectionError("closed without an answer")
        head += piece
    first, *lines = head.decode().strip().split("\r\n")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    left = int(fields.get("content-length", 0))
    while left > 0:
        piece = wire.recv(min(left, 65536))
        if not piece:
            raise ConnectionError("closed within a body")
        left -= len(piece)
    return int(first.split(" ")[1]), fields


def request(path, client="x"):
    return f"GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Client: {client}\r\n\r\n".encode()


def ask(port, path, client="x", timeout=10):
    """Status and fields of a request on a connection of its own; (0, why not) if there is no answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as wire:
            wire.sendall(request(path, client))
            return answer_of(wire)
    except OSError as error:
        return 0, {"error": repr(error)}


AT_ONCE = 500


def spend(port, clients):
    """Sends one request for each of so many clients, over one connection; returns how many answers have which status.

    It ends early if the gateway does.
    """
    seen = {}
    with socket.create_connection(("127.0.0.1", port), 30) as wire, wire.makefile("rb") as stream:
        for first in range(0, clients, AT_ONCE):
            try:
                wire.sendall(b"".join(request("/", number) for number in range(first, first + AT_ONCE)))
                answered = 0
                while answered < AT_ONCE:
                    line = stream.readline()
                    if not line:
                        return seen
                    # A body has no newline at its end: the next head begins on the same line.
                    _, found, rest = line.partition(b"HTTP/1.1 ")
                    if found:
                        answered += 1
                        status = int(rest[:3])
                        seen[status] = seen.get(status, 0) + 1
            except OSError:
                return seen
    return seen


def steady(port, rate, seconds, results):
    """A good client: so many requests a second, one in ten on a connection of its own.

    Latency counts from when the request was due, so that a stall shows in all that wait behind it.
    """
    request = b"GET /good HTTP/1.1\r\nHost: a.test\r\n\r\n"
    latencies, errors = [], []
    kept = None
    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
            # The client's own oversleeping is not the gateway's.
            due = time.perf_counter()
        try:
            if kept is None or number % 10 == 0:
                if kept:
                    kept.close()
                kept = socket.create_connection(("127.0.0.1", port), 10)
                kept.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            kept.sendall(request)
            status = read_answer(kept)
            if status != 200:
                errors.append(f"status {status}")
        except OSError as error:
            errors.append(repr(error))
            kept = None
        latencies.append(time.perf_counter() - due)
    if kept:
        kept.close()
    results.put((sorted(latencies), errors))


def measure_steady(port, rate, seconds):
    """Runs the good client in a process of its own; returns latencies in order, and errors."""
    results = spawn.Queue()
    process = spawn.Process(target=steady, args=(port, rate, seconds, results), daemon=True)
    process.start()
    found = results.get(timeout=seconds + 60)
    process.join()
    return found


def share(latencies, part):
    """The latency in milliseconds that `part` of the requests did not exceed."""
    return latencies[min(len(latencies) - 1, int(len(latencies) * part))] * 1000


def told(latencies):
    return f"p50 {share(latencies, 0.5):.2f} ms, p99 {share(latencies, 0.99):.2f} ms, max {latencies[-1] * 1000:.2f} ms"


class Verdict:
    """Claims and whether they hold."""

    def __init__(self):
        self.failed = 0

    def claim(self, holds, text):
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {text}", flush=True)

    def finish(self):
        print("verdict:", "every claim holds" if not self.failed else f"{self.failed} claims FAIL")
        sys.exit(1 if self.failed else 0)


def bound(seconds):
    """Ends the drill, children included, after so long."""
    def over(*_):
        sys.exit(f"the drill took longer than {seconds} s")
    signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)


def numbers(*defaults):
    """Returns the arguments as numbers, with defaults for those that are missing."""
    given = sys.argv[1:]
    if len(given) > len(defaults) or not all(word.isdecimal() for word in given):
        sys.exit(f"expected whole numbers, at most {len(defaults)}; found: {' '.join(given)}")
    return [*map(int, given), *defaults[len(given):]]


def run_scenarios(scenarios, seconds):
    """Runs those that the arguments name, or all, within so many seconds; ends with the verdict."""
    bound(seconds)
    named = sys.argv[1:] or list(scenarios)
    unknown = [name for name in named if name not in scenarios]
    if unknown:
        sys.exit(f"there is no scenario {unknown[0]}, only {', '.join(scenarios)}")
    verdict = Verdict()
    for name in named:
        scenarios[name](verdict)
    verdict.finish()
