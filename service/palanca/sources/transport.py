"""HTTP for ``requests`` in which the timeout of a read holds for the whole answer, headers included.

``requests`` alone bounds the silence between two bytes, not the whole: a server that drips bytes holds it for ever.
An adapter can also be told to hang up: whoever waits for an answer of it is told at once that the connection is lost.
"""

from __future__ import annotations

import io
import socket
import time
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any
from weakref import WeakSet

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

Sockets = WeakSet[socket.socket]


class _Clocked(io.RawIOBase):
    """The bytes of a socket; each read waits no longer than is left of the whole time."""

    def __init__(self, sock: socket.socket, seconds: float) -> None:
        self._sock, self._raw = sock, sock.makefile("rb", buffering=0)
        self._deadline = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401  any writable buffer
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _ClockedResponse(HTTPResponse):
    """Reads headers and body against the clock that starts when the question has been sent."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401
        super().__init__(sock, *args, **options)
        seconds = sock.gettimeout()
        if seconds is not None:
            clocked = _Clocked(sock, seconds)
            self.fp.close()
            self.fp = io.BufferedReader(clocked)


def _pools(sockets: Sockets) -> dict[str, type]:
    """Classes of connection pools whose connections are noted in ``sockets``, by scheme."""

    class Plain(HTTPConnection):
        response_class = _ClockedResponse

        def connect(self) -> None:
            super().connect()
            sockets.add(self.sock)

    class Secure(HTTPSConnection):
        response_class = _ClockedResponse

        def connect(self) -> None:
            super().connect()
            sockets.add(self.sock)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class Transport(HTTPAdapter):
    """An adapter to mount on a session; the timeout of a request bounds the reading of its answer."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401  as in requests
        self._sockets: Sockets = WeakSet()
        super().__init__(*args, **options)

    def init_poolmanager(self, *args: Any, **options: Any) -> None:  # noqa: ANN401
        """Make the pools of direct connections."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = _pools(self._sockets)

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """Make the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = _pools(self._sockets)
        return manager

    def hang_up(self) -> None:
        """Cut every connection, also while another thread reads from it."""
        for sock in list(self._sockets):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of TLS, which would say goodbye first
