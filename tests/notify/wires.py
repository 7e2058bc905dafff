"""Alertmanagers that are none, and what is told of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from palanca.errors import SourceError
from palanca.notify.alertmanager import Reply

Json = Any


@dataclass
class FakeWire:
    """Answers as a test says; ``asked`` are method, path and document of each request."""

    answer: Callable[[str, str], Reply] = lambda _, __: Reply(200, b"[]")
    url: str = "http://am:9093"
    asked: list[tuple[str, str, Json]] = field(default_factory=list)
    stopped: bool = False

    def ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        self.asked.append((method, path, None if body is None else json.loads(body)))
        return self.answer(method, path)

    def stop(self) -> None:
        self.stopped = True

    @property
    def posted(self) -> list[list[Json]]:
        """The alerts of each push."""
        return [document for method, _, document in self.asked if method == "POST"]


def failing(*_: str) -> Reply:
    raise SourceError("http://am:9093: connection refused")


@dataclass
class Journal:
    """Keeps what it is told."""

    events: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def _note(self, kind: str, url: str) -> None:
        with self.lock:
            self.events.append((kind, url))

    def sent(self, url: str, alerts: int) -> None:
        self._note(f"sent {alerts}", url)

    def failed(self, url: str, reason: str) -> None:
        self._note(f"failed {reason}", url)

    def read(self, url: str) -> None:
        self._note("read", url)

    def unread(self, url: str, reason: str) -> None:
        self._note(f"unread {reason}", url)

    def of(self, url: str) -> list[str]:
        with self.lock:
            return [kind for kind, where in self.events if where == url]
