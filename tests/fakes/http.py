"""Fake servers for tests: real HTTP on 127.0.0.1, one thread a connection, faults on demand.

A fake derives from `FakeServer` and gives `answer`. Faults stand in a queue; the first one that matches a
request is applied instead of, or on top of, the answer:

    with FakeOllama(...) as server:
        server.faults.add(status(503, times=2), html(path="/api/tags"))
        ...
        assert server.count("/api/embed") == 3
"""

import contextlib
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]  # names in lower case
    body: Any  # parsed JSON, None without a body

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Reply:
    body: Any = None  # bytes are sent as they are, everything else as JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """What happens to a request whose "METHOD /path" holds the regular expression `path`.

    The first `after` matching requests pass, the next `times` (None: all) are hit.
    """

    name: str
    path: str = ""
    times: int | None = 1
    after: int = 0
    seconds: float = 0.0
    reply: Reply | None = None
    change: Callable[[Any], Any] | None = None


def reset(path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """The connection is reset without an answer. (`FakeServer.vanish` makes connections refused.)"""
    return Fault("reset", path, times, after)


def hang(path: str = "", times: int | None = None, after: int = 0, seconds: float = 60.0) -> Fault:
    """No byte comes back until `seconds` have passed or the server closes; then the connection drops."""
    return Fault("hang", path, times, after, seconds)


def slow(seconds: float, path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """The right answer, late."""
    return Fault("slow", path, times, after, seconds)


def drip(seconds: float, path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """The right answer's body, a byte at a time with `seconds` between them."""
    return Fault("drip", path, times, after, seconds)


def status(
    code: int,
    path: str = "",
    times: int | None = None,
    after: int = 0,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Fault:
    """Another status, with a JSON error body unless one is given."""
    if body is None:
        body = {"error": f"made error {code}", "status": {"error": f"made error {code}"}}
    return Fault(f"status {code}", path, times, after, reply=Reply(body, code, headers or {}))


def too_many(retry_after: str = "1", path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """429 with Retry-After."""
    return status(429, path, times, after, headers={"Retry-After": retry_after})


def cut(path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """Half of the right body, then the connection drops."""
    return Fault("cut", path, times, after)


def html(path: str = "", times: int | None = None, after: int = 0, code: int = 200) -> Fault:
    """A proxy's page instead of JSON."""
    page = b"<!doctype html><html><body><h1>Sign in to the company proxy</h1></body></html>"
    return Fault("html", path, times, after, reply=Reply(page, code, {"Content-Type": "text/html"}))


def changed(change: Callable[[Any], Any], path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """The right answer's JSON, passed through `change`."""
    return Fault("changed", path, times, after, change=change)


def without(name: str, path: str = "", times: int | None = None, after: int = 0) -> Fault:
    """The right answer's JSON without one of its top-level fields."""
    return replace(
        changed(lambda body: {key: value for key, value in body.items() if key != name}, path, times, after),
        name=f"without {name}",
    )


class FaultQueue:
    """Faults to come, taken by the first request that matches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []
        self.hit: list[str] = []  # names of the faults that were applied, in order

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._waiting.extend(faults)

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    def take(self, line: str) -> Fault | None:
        with self._lock:
            for place, fault in enumerate(self._waiting):
                if not re.search(fault.path, line):
                    continue
                if fault.after:
                    self._waiting[place] = replace(fault, after=fault.after - 1)
                    continue
                if fault.times == 1:
                    del self._waiting[place]
                elif fault.times is not None:
                    self._waiting[place] = replace(fault, times=fault.times - 1)
                self.hit.append(fault.name)
                return fault
        return None


class FakeServer:
    """An HTTP server on a free port of 127.0.0.1; as a context manager it leaves no thread or socket."""

    def __init__(self) -> None:
        self.faults = FaultQueue()
        self.requests: list[Request] = []
        self.errors: list[BaseException] = []  # faults of the fake itself; raised when it closes
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._http: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.port = 0

    def answer(self, request: Request) -> Reply:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def count(self, path: str = "") -> int:
        """Requests so far whose "METHOD /path" holds the regular expression."""
        with self._lock:
            return sum(re.search(path, request.line) is not None for request in self.requests)

    def listen(self) -> None:
        """Start, or come back at the port of before."""
        self.closing.clear()
        self._http = _Server(("127.0.0.1", self.port), self)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def vanish(self) -> None:
        """Stop: open connections drop, new ones are refused."""
        if self._http is None or self._thread is None:
            return
        self.closing.set()
        self._http.shutdown()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()  # joins the connections' threads
        self._thread.join()
        self._http = self._thread = None

    def __enter__(self) -> Self:
        self.listen()
        return self

    def __exit__(self, *exc: object) -> None:
        self.vanish()
        if self.errors and exc[0] is None:
            raise self.errors[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], fake: FakeServer) -> None:
        self.fake = fake
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.fake.errors.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        fake = self.server.fake
        with fake._lock:
            fake._open.add(self.connection)
            if fake.closing.is_set():  # accepted too late for `vanish` to have seen it
                self.connection.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        with self.server.fake._lock:
            self.server.fake._open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _read(self) -> Request:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        return Request(
            self.command,
            parts.path,
            parse_qs(parts.query),
            {name.lower(): value for name, value in self.headers.items()},
            json.loads(raw) if raw else None,
        )

    def _serve(self) -> None:
        fake, request = self.server.fake, self._read()
        with fake._lock:
            fake.requests.append(request)
        fault = fake.faults.take(request.line)
        if fault is None:
            self._send(fake.answer(request))
        elif fault.name == "reset":
            self._drop(abruptly=True)
        elif fault.name in ("hang", "slow"):
            fake.closing.wait(fault.seconds)
            if fault.name == "hang" or fake.closing.is_set():
                self._drop()
            else:
                self._send(fake.answer(request))
        else:
            reply = fault.reply or fake.answer(request)
            if fault.change is not None:
                reply = replace(reply, body=fault.change(reply.body))
            self._send(reply, fault)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _serve

    def _drop(self, abruptly: bool = False) -> None:
        if abruptly:  # linger 0 makes the close a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _send(self, reply: Reply, fault: Fault | None = None) -> None:
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in ({"Content-Type": "application/json"} | reply.headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is not None and fault.name == "cut":
            self.wfile.write(body[: len(body) // 2])
            self._drop()
        elif fault is not None and fault.name == "drip":
            for place in range(len(body)):
                self.wfile.write(body[place : place + 1])
                if self.server.fake.closing.wait(fault.seconds):
                    self._drop()
                    break
        else:
            self.wfile.write(body)
