"""A proxy between the service and a real server, whose faults are switched on and off while it runs."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

HOP = frozenset({"connection", "content-length", "content-encoding", "transfer-encoding", "host", "accept-encoding"})
_AT_ONCE_RST = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Answer:
    """An answer on its way back, unpacked. Its length is that of the body, whatever the headers say."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Exchange:
    """One question on its way through, and what a fault may do with it."""

    def __init__(self, handler: _Handler, body: bytes) -> None:
        self._handler, self._proxy = handler, handler.server.proxy
        self.path, self.form = handler.path, parse_qs(body.decode())

    def forward(self, form: Mapping[str, list[str]] | None = None) -> Answer:
        """Ask the server behind, with another form if one is given."""
        headers = {name: value for name, value in self._handler.headers.items() if name.lower() not in HOP}
        body = urlencode(self.form if form is None else form, doseq=True)
        connection = http.client.HTTPConnection(self._proxy.behind, timeout=30)
        try:
            connection.request(self._handler.command, self.path, body, headers)
            got = connection.getresponse()
            back = {name: value for name, value in got.getheaders() if name.lower() not in HOP}
            return Answer(got.status, got.read(), back)
        finally:
            connection.close()

    def head(self, answer: Answer, length: int) -> None:
        """Send the status and the headers."""
        self._handler.send_response_only(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(length)}.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()

    def write(self, data: bytes) -> None:
        """Send bytes of the body."""
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def send(self, answer: Answer) -> None:
        """Send a whole answer."""
        self.head(answer, len(answer.body))
        self.write(answer.body)

    def wait(self, seconds: float) -> bool:
        """Wait; whether the proxy was closed meanwhile."""
        return self._proxy.closed.wait(seconds)

    def hang_up(self) -> None:
        """Close the connection after this question."""
        self._handler.close_connection = True

    def reset(self) -> None:
        """End the connection by RST."""
        sock = self._handler.connection
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE_RST)
        self.hang_up()
        sock.close()


Fault = Callable[[Exchange], None]


def through(exchange: Exchange) -> None:
    """No fault at all."""
    exchange.send(exchange.forward())


def refuse(exchange: Exchange) -> None:
    """Close the port; only a question that was under way gets here."""
    exchange.reset()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        exchange = Exchange(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
        proxy = self.server.proxy
        proxy.questions += 1
        try:
            proxy.fault(exchange)
        except (OSError, ValueError):
            self.close_connection = True

    do_GET = do_POST  # noqa: N815  the name that http.server calls

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: Proxy, port: int) -> None:
        self.proxy, self.open = proxy, set[socket.socket]()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        self.open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.open.discard(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is none."""


class Proxy:
    """Listens on 127.0.0.1 and hands on to the server at ``url``, or does what the fault of the moment says."""

    def __init__(self, url: str) -> None:
        self.behind = urlsplit(url).netloc
        self.fault: Fault = through
        self.closed = threading.Event()
        self.questions = 0
        self._listen(0)

    def _listen(self, port: int) -> None:
        self._server = _Server(self, port)
        self._port = self._server.server_port
        self.url = f"http://127.0.0.1:{self._port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def _close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for sock in list(self._server.open):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        """Have a fault for a while. Questions that it has swallowed stay so."""
        self.fault = fault
        if fault is refuse:
            self._close()
        try:
            yield
        finally:
            self.fault = through
            if fault is refuse:
                self._listen(self._port)

    def close(self) -> None:
        """End everything, also what hangs."""
        self.closed.set()
        self._close()


@contextmanager
def proxying(url: str) -> Iterator[Proxy]:
    """Run a proxy before the server at ``url``."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
