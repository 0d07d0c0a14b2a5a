"""Redis servers and a faulty network for drills, all on loopback and gone with the drill."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import lib

# Who the drills are to a server, whatever becomes of the default user.
USER, PASSWORD = "drill", "a-password-of-the-drills"
PACKAGES = {"redis-server": "redis-server", "redis-cli": "redis-tools", "setpriv": "util-linux"}


class Refused(Exception):
    """An error that the server answered."""


class Clock:
    """A wall clock that steps, for processes that have `environment`."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="tollgate-drill-clock-")
        self.to(0)

    def environment(self):
        library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        libc = glob.glob("/lib/*-linux-gnu/libc.so.6")
        if not library or not libc:
            sys.exit("libfaketime is missing: install the Debian package libfaketime")
        return {
            # jemalloc asks for the time before libfaketime is ready, and hangs: libc's malloc does not.
            "LD_PRELOAD": f"{library[0]} {libc[0]}", "FAKETIME_TIMESTAMP_FILE": self.path("clock"),
            "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def to(self, seconds):
        """Sets by how much it is ahead."""
        with open(self.path("new"), "w") as file:
            file.write(f"{seconds:+d}\n")
        os.replace(self.path("new"), self.path("clock"))

    def path(self, name):
        return os.path.join(self.directory, name)

    def end(self):
        shutil.rmtree(self.directory, ignore_errors=True)


class Redis:
    """One server; `clock` is the one that it has instead of the machine's."""

    def __init__(self, *lines, sentinel=False, clock=None):
        for program, package in PACKAGES.items():
            if not shutil.which(program):
                sys.exit(f"{program} is missing: install the Debian package {package}")
        self.directory = tempfile.mkdtemp(prefix="tollgate-drill-redis-")
        self.port, self.sentinel, self.clock = lib.free_port(), sentinel, clock
        self.file = self.path("redis.conf")
        own = [
            f"port {self.port}", "bind 127.0.0.1", f"dir {self.directory}", f"logfile {self.path('log')}",
            f"unixsocket {self.path('socket')}", f"user {USER} on >{PASSWORD} ~* &* +@all",
        ]
        if not sentinel:
            own += ['save ""', "repl-diskless-sync-delay 0"]
        with open(self.file, "w") as file:
            file.write("\n".join([*own, *lines]) + "\n")
        self.process = None
        self.start()

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self):
        """Starts it, empty, on its port."""
        command = ["setpriv", "--pdeathsig", "KILL", "redis-server", self.file]
        if self.sentinel:
            command.append("--sentinel")
        environment = dict(os.environ)
        if self.clock:
            environment.update(self.clock.environment())
        self.process = subprocess.Popen(command, env=environment)
        lib.until(10, lambda: self.answers("PING"), "redis-server answers PING")

    def signal(self, name):
        self.process.send_signal(getattr(signal, f"SIG{name}"))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def connect(self, patience=5):
        """A connection of its own, as a function from words to an answer; an error of the server is raised."""
        wire = socket.socket(socket.AF_UNIX)
        wire.settimeout(patience)
        wire.connect(self.path("socket"))
        stream = wire.makefile("rb")

        def ask(*words):
            wire.sendall(packed(words))
            return unpacked(stream)

        ask("AUTH", USER, PASSWORD)
        return ask

    def command(self, *words):
        return self.connect()(*words)

    def calls(self):
        """How many scripts it has run."""
        stats = self.command("INFO", "commandstats")
        return sum(int(number) for number in re.findall(r"cmdstat_evalsha(?:_ro)?:calls=(\d+)", stats))

    def answers(self, *words):
        """The answer; nothing where there is none."""
        try:
            return self.command(*words)
        except (OSError, Refused, ValueError):
            return None

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def packed(words):
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def unpacked(stream):
    line = stream.readline().rstrip(b"\r\n")
    if not line:
        raise ConnectionError("closed")
    kind, rest = line[:1], line[1:].decode()
    if kind == b"-":
        raise Refused(rest)
    if kind == b":":
        return int(rest)
    if kind == b"$":
        return None if rest == "-1" else stream.read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == b"*":
        return [unpacked(stream) for _ in range(int(rest))]
    return rest


class Cluster:
    """Three primaries with a replica each."""

    def __init__(self):
        buses = [lib.free_port() for _ in range(6)]
        self.nodes = [
            Redis("cluster-enabled yes", "cluster-node-timeout 2000", f"cluster-port {bus}") for bus in buses
        ]
        first = self.nodes[0]
        for index, node in enumerate(self.nodes[:3]):
            node.command("CLUSTER", "ADDSLOTSRANGE", 16384 * index // 3, 16384 * (index + 1) // 3 - 1)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        for node, bus in zip(self.nodes[1:], buses[1:]):
            first.command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        known = "cluster_known_nodes:6"
        lib.until(20, lambda: all(known in node.command("CLUSTER", "INFO") for node in self.nodes), known)
        for index, node in enumerate(self.nodes[3:]):
            primary = self.nodes[index].command("CLUSTER", "MYID")
            lib.until(10, lambda: node.answers("CLUSTER", "REPLICATE", primary), "the replica knows its primary")
        lib.until(20, self.is_whole, "the Cluster is whole")

    def is_whole(self):
        def sees(node):
            role = node.answers("ROLE") or ["none"]
            in_step = role[0] == "master" or role[0] == "slave" and role[3] == "connected"
            return in_step and "cluster_state:ok" in (node.answers("CLUSTER", "INFO") or "")
        return all(sees(node) for node in self.nodes if node.process.poll() is None)

    def end(self):
        for node in self.nodes:
            node.end()


class Sentinels:
    """A primary, two replicas, three sentinels."""

    def __init__(self):
        primary = Redis()
        self.nodes = [primary] + [Redis(f"replicaof 127.0.0.1 {primary.port}") for _ in range(2)]
        watched = (
            f"sentinel monitor main 127.0.0.1 {primary.port} 2", "sentinel down-after-milliseconds main 1000",
            "sentinel failover-timeout main 5000",
        )
        lib.until(10, lambda: "connected" in self.nodes[2].command("ROLE"), "the replicas are in step")
        self.sentinels = [Redis(*watched, sentinel=True) for _ in range(3)]
        lib.until(20, lambda: all(map(self.knows_all, self.sentinels)), "the sentinels know everybody")

    def knows_all(self, sentinel):
        facts = sentinel.command("SENTINEL", "MASTER", "main")
        facts = dict(zip(facts[::2], facts[1::2]))
        return (facts["num-slaves"], facts["num-other-sentinels"]) == ("2", "2")

    def end(self):
        for node in self.nodes + self.sentinels:
            node.end()


class Proxy:
    """A TCP proxy in front of a server, with latency or as a black hole, for connections new and old."""

    def __init__(self, target):
        self.target, self.latency = target, 0.0
        self.open = threading.Event()
        self.open.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for wire in (client, server):
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, target):
        try:
            while piece := source.recv(65536):
                # Half of it each way. What comes meanwhile waits its turn, and then goes out at once.
                if self.latency:
                    time.sleep(self.latency / 2)
                self.open.wait()
                target.sendall(piece)
        except OSError:
            pass
        for wire in (source, target):
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.open.set()
        self.listener.close()
