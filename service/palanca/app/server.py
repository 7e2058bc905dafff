"""Runs the application by uvicorn, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from starlette.types import ASGIApp

GRACE_S = 2
"""Requests under way may end by themselves for so long after SIGTERM; with the polls that makes less than 5 s."""
KEEP_ALIVE_S = 65
"""Longer than the 60 s of usual load balancers, which else would use a connection that is just being closed."""
MOST_CONNECTIONS = 1000
LARGEST_HEAD = 32 * 1024


@dataclass(frozen=True)
class Listen:
    """Where to listen. With a certificate it is TLS; with ``client_ca`` callers must show one of theirs."""

    host: str
    port: int
    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None


async def run(app: ASGIApp, listen: Listen, *, reload: Callable[[], None], started: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP calls ``reload``. ``started`` is told the address."""
    config = uvicorn.Config(
        app,
        host=listen.host,
        port=listen.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        ssl_certfile=listen.cert,
        ssl_keyfile=listen.key,
        ssl_ca_certs=None if listen.client_ca is None else str(listen.client_ca),
        ssl_cert_reqs=2 if listen.client_ca else 0,
    )
    server = _Server(config, started)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
    await server.serve()


class _Server(uvicorn.Server):
    """Leaves signals to us, so that an orderly end is exit code 0."""

    def __init__(self, config: uvicorn.Config, started: Callable[[str], None]) -> None:
        super().__init__(config)
        self._tell = started

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        """Bind, and tell the address: with port 0 it is known only now."""
        await super().startup(sockets)  # type: ignore[arg-type]
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.ssl_certfile else "http"
            self._tell(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
