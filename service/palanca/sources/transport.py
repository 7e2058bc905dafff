"""HTTP for ``requests`` in which the timeout of a read holds for the whole answer, headers included.

``requests`` alone bounds the silence between two bytes, not the whole: a server that drips bytes holds it for ever.
"""

from __future__ import annotations

import io
import time
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket


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


class _HTTPConnection(HTTPConnection):
    response_class = _ClockedResponse


class _HTTPSConnection(HTTPSConnection):
    response_class = _ClockedResponse


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


class Transport(HTTPAdapter):
    """An adapter to mount on a session; the timeout of a request bounds the reading of its answer."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:  # noqa: ANN401
        """Make the pools of direct connections."""
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}

    def proxy_manager_for(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """Make the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **options)
        manager.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
        return manager
