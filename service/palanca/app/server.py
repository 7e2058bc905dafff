"""Serves the application by uvicorn, until a signal ends it."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from palanca.app.protocol import Protocol
from palanca.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

GRACE_S = 2
"""Requests under way may end by themselves for so long after SIGTERM; with the polls that makes less than 5 s."""
KEEP_ALIVE_S = 65
"""Longer than the 60 s of usual load balancers, which else would use a connection that is just being closed."""
MOST_CONNECTIONS = 1000
_HINTS = {
    errno.EADDRINUSE: "another process has it: choose another with --port, or 0 for a free one",
    errno.EACCES: "ports below 1024 need a privilege: choose another with --port",
}


@dataclass(frozen=True)
class Listen:
    """Where to listen. With a certificate it is TLS; with ``client_ca`` callers must show one of theirs."""

    host: str
    port: int
    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


class Server(uvicorn.Server):
    """Serves an application. Leaves signals to the caller, so that an orderly end is exit code 0.

    Binds at once. Raises ``UsageError`` for an address that cannot be had, and for certificates that cannot be read.
    """

    def __init__(self, app: ASGIApp, listen: Listen) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            limit_concurrency=MOST_CONNECTIONS,
            http=Protocol,
            ssl_certfile=listen.cert,
            ssl_keyfile=listen.key,
            ssl_ca_certs=None if listen.client_ca is None else str(listen.client_ca),
            ssl_cert_reqs=ssl.CERT_REQUIRED if listen.client_ca else ssl.CERT_NONE,
        )
        try:
            config.load()
        except OSError as error:  # every error of ssl is one
            files = ", ".join(str(path) for path in (listen.cert, listen.key, listen.client_ca) if path)
            raise UsageError(f"listen.tls: {files} cannot be used: {error.strerror or error}") from None
        super().__init__(config)
        self._socket = _bound(listen)
        host, port = self._socket.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.url = f"http{'s' if listen.cert else ''}://{place}"

    def heed(self, *, reload: Callable[[], None], stop: Callable[[], None]) -> None:
        """From now on SIGTERM and SIGINT call ``stop`` and end the service, and SIGHUP calls ``reload``."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.should_exit = True
            stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        loop.add_signal_handler(signal.SIGHUP, reload)

    async def run_until_stopped(self) -> None:
        """Serve until a signal that is heeded ends it."""
        await self.serve(sockets=[self._socket])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _bound(listen: Listen) -> socket.socket:
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        return socket.create_server((listen.host, listen.port), family=family, backlog=1024)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "give an address of this machine with --host")
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise UsageError(f"cannot listen on {listen.host} port {listen.port}: {reason} ({hint})") from None
