"""HTTP/1.1 for the server, with limits for the head of a request, which uvicorn does not have."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from palanca.api.problems import MEDIA_TYPE, Problem

LONGEST_HEAD_S = 10.0
"""From the first byte of a connection or request to the end of its head: as long as nginx and Envoy are asked to wait
at their strictest; a slow phone needs a second."""
LARGEST_HEAD = 64 * 1024
"""Bytes of a head: twice what Node.js, nginx and Apache take together with the longest query that is answered."""


class Protocol(HttpToolsProtocol):
    """Closes connections whose request does not come, or comes with a head that is too large."""

    longest_head = LONGEST_HEAD_S
    _timer: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; a head that is still incomplete has its limits."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if self._timer is None and (cycle is None or cycle.response_complete):
            self._expect()
        super().data_received(data)
        if self._timer is not None:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._refuse(431, f"the head of the request has more than {LARGEST_HEAD:,} bytes")

    def on_headers_complete(self) -> None:
        """The head is here."""
        self._arrived()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > LARGEST_HEAD:
            self._refuse(431, f"the head of the request has more than {LARGEST_HEAD:,} bytes")
            return
        super().on_headers_complete()

    def _expect(self) -> None:
        self._head = 0
        self._timer = self.loop.call_later(self.longest_head, self._too_slow)

    def _arrived(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self._head:
            self._refuse(408, f"no whole request within {self.longest_head:g} s")
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        self._arrived()
        if self.transport.is_closing():
            return
        titles: dict[int, str] = {408: "Request Timeout", 431: "Request Header Fields Too Large"}
        body = Problem(title=titles[status], status=status, detail=detail).model_dump_json().encode()
        head = (
            f"HTTP/1.1 {status} {titles[status]}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
