"""Alertmanager's API v2: alerts are pushed and kept alive, silences are read.

Each Alertmanager has threads of its own, so that one that is down or slow keeps nothing from the others, nor from the
diagnosis. Nothing is stored: an alert ends by itself some minutes after nobody has sent it any more, so that a process
that was killed leaves nothing behind, and one that was started again goes on with what it finds.

Several replicas of palanca all push: their alerts have equal labels, and Alertmanager takes them as one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

from palanca.alerting import names
from palanca.errors import SourceError
from palanca.notify.periodic import Pause, Periodic
from palanca.notify.silences import Matcher, MutedAlert, Muting, Silence

if TYPE_CHECKING:
    from palanca.notify.pushed import PushedAlert

ALERTS, SILENCES = "/api/v2/alerts", "/api/v2/silences"
KEEP_ALIVE_S = 60.0
"""How often an alert is sent again: as often as Prometheus does."""
ALIVE_S = 4 * KEEP_ALIVE_S
"""How long it lives when nobody sends it any more: as with Prometheus, three tries may fail."""
READ_S = 15.0
BELIEVED_S = 300.0
"""How old what was read of silences may be: a silence may have been ended since."""
AT_ONCE = 250
"""Alerts in one request."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
_LONGEST_REASON = 300


@dataclass(frozen=True)
class Reply:
    """An answer: ``retry_after`` in seconds, 0 where the server says nothing of that."""

    status: int
    body: bytes = b""
    retry_after: float = 0.0


class Wire(Protocol):
    """Asks one Alertmanager; used by several threads."""

    @property
    def url(self) -> str:
        """Its address, without credentials and without a slash at the end."""

    def ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """Send a request; the body is JSON. Raises ``SourceError`` where there is no answer."""

    def stop(self) -> None:
        """End what is under way in other threads; nothing can be asked afterwards."""


class RefusedError(SourceError):
    """An answer that is no success; ``retry_after`` in seconds."""

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Told(Protocol):
    """Is told how it goes, in any thread."""

    def sent(self, url: str, alerts: int) -> None:
        """Learn that alerts have arrived."""

    def failed(self, url: str, reason: str) -> None:
        """Learn that alerts have not arrived; they will be sent again."""

    def read(self, url: str) -> None:
        """Learn that silences were read."""

    def unread(self, url: str, reason: str) -> None:
        """Learn that silences could not be read; they will be asked for again."""


class Alertmanager:
    """Speaks with one Alertmanager. All methods raise ``SourceError``."""

    def __init__(self, wire: Wire) -> None:
        self._wire, self.url, self.stop = wire, wire.url, wire.stop

    def push(self, alerts: Sequence[Mapping[str, object]]) -> None:
        """Send alerts as API v2 has them. One that is refused keeps none of the others from being taken."""
        refused: SourceError | None = None
        for begin in range(0, len(alerts), AT_ONCE):
            part = alerts[begin : begin + AT_ONCE]
            try:
                self._ask("POST", ALERTS, json.dumps(part, ensure_ascii=False).encode())
            except RefusedError as error:
                if error.retry_after:
                    raise
                refused = error
        if refused is not None:
            raise refused

    def muting(self) -> Muting:
        """Read the silences that are in force, and which alerts they mute."""
        silences = tuple(_silence(one) for one in self._list(SILENCES, {}) if _state(one) == "active")
        if not silences:
            return Muting()
        query = {"active": "false", "silenced": "true", "inhibited": "true", "filter": f'{names.RULE}=~".+"'}
        return Muting(silences, tuple(_muted(one) for one in self._list(ALERTS, query)))

    def _list(self, path: str, query: Mapping[str, str]) -> list[Any]:
        body = self._ask("GET", path + (f"?{urlencode(query)}" if query else ""))
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list):
            raise SourceError(f"{self.url}{path}: the answer is no list (is this an Alertmanager?)")
        return found

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        reply = self._wire.ask(method, path, body)
        if not 200 <= reply.status < 300:  # noqa: PLR2004  success
            said = " ".join(reply.body[:_LONGEST_REASON].decode("utf-8", "replace").split())
            place = path.partition("?")[0]
            raise RefusedError(
                f"{self.url}{place}: HTTP {reply.status} {said}".rstrip() + _hint(reply.status), reply.retry_after
            )
        return reply.body


def _hint(status: int) -> str:
    hints = {
        401: " (give its credentials: alertmanager.bearer_file or basic_file)",
        403: " (these credentials may not do this)",
        404: " (is the path right? An Alertmanager behind a prefix needs it in its URL)",
        410: " (this Alertmanager has no API v2; 0.16 is the oldest with it)",
    }
    return hints.get(status, "")


# --- what it answers -------------------------------------------------------------------------------------------------


def _state(one: object) -> object:
    status = one.get("status") if isinstance(one, dict) else None
    return status.get("state") if isinstance(status, dict) else None


def _silence(one: Any) -> Silence:  # noqa: ANN401  JSON is anything
    try:
        matchers = tuple(
            Matcher(
                str(each["name"]), str(each["value"]), bool(each["isRegex"]), each.get("isEqual", True) is not False
            )
            for each in one["matchers"]
        )
        return Silence(str(one["id"]), _moment(one["startsAt"]), _moment(one["endsAt"]), matchers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(f"a silence that cannot be read: {error!r} (is this an Alertmanager?)") from None


def _muted(one: Any) -> MutedAlert:  # noqa: ANN401  the same
    try:
        labels = {str(name): str(value) for name, value in one["labels"].items()}
        return MutedAlert(labels, tuple(str(name) for name in one["status"].get("silencedBy") or ()))
    except (KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"an alert that cannot be read: {error!r} (is this an Alertmanager?)") from None


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


# --- pushing ---------------------------------------------------------------------------------------------------------

Key = tuple[tuple[str, str], ...]
Alive = Mapping[str, Mapping["Key", "PushedAlert"]]
"""The labels of an alert, sorted: Alertmanager takes alerts with equal ones as one."""


@dataclass
class _Line:
    """What one Alertmanager was told."""

    target: Alertmanager
    alive: Mapping[Key, PushedAlert]
    """Alerts that it believes to fire, as far as this process knows."""
    thread: Periodic | None = None
    failures: int = 0


@dataclass(frozen=True)
class Pace:
    """How often alerts are sent again, and how long they live when nobody does, both in seconds."""

    every: float = KEEP_ALIVE_S
    alive: float = ALIVE_S


class Pusher:
    """Keeps alerts alive at several Alertmanagers. ``want`` says which; all may be called in any thread.

    ``clock`` gives unix seconds. ``before`` is what a pusher before this one kept alive.
    """

    def __init__(
        self,
        targets: Sequence[Alertmanager],
        told: Told,
        clock: Callable[[], float],
        pace: Pace | None = None,
        before: Alive | None = None,
    ) -> None:
        self._told, self._clock, self._lock = told, clock, threading.Lock()
        self._pace = pace or Pace()
        self._wanted: Mapping[Key, PushedAlert] | None = None
        self._lines = [_Line(target, (before or {}).get(target.url, {})) for target in targets]
        for line in self._lines:
            line.thread = Periodic(
                f"push {line.target.url}", partial(self._turn, line), partial(told.failed, line.target.url)
            )

    def start(self) -> None:
        """Begin to send."""
        for line in self._lines:
            if line.thread is not None:
                line.thread.start()

    def want(self, alerts: Sequence[PushedAlert]) -> None:
        """Say which alerts fire from now on; those that do not any more are resolved. Returns at once."""
        wanted = {alert.key: alert for alert in alerts}
        with self._lock:
            news = self._wanted is None or wanted.keys() != self._wanted.keys()
            self._wanted = wanted
        if news:
            for line in self._lines:
                if line.thread is not None:
                    line.thread.news()

    @property
    def alive(self) -> Alive:
        """What may fire at each Alertmanager, by its URL."""
        return {line.target.url: line.alive for line in self._lines}

    def stop(self) -> None:
        """End. What fires is not resolved: a process that is started again goes on with it."""
        for line in self._lines:
            if line.thread is not None:
                line.thread.stop()
            line.target.stop()

    def join(self, seconds: float) -> None:
        """Wait until all threads have ended."""
        for line in self._lines:
            if line.thread is not None:
                line.thread.join(seconds)

    def _turn(self, line: _Line) -> Pause:
        """Send what there is to say to one Alertmanager."""
        with self._lock:
            wanted = self._wanted
        if wanted is None:
            return Pause(self._pace.every)
        now = self._clock()
        gone = {key: alert for key, alert in line.alive.items() if key not in wanted}
        messages = [alert.message(now + self._pace.alive) for alert in wanted.values()]
        messages += [alert.message(now) for alert in gone.values()]
        line.alive = {**gone, **wanted}  # also where sending fails: it may have arrived
        if not messages:
            return Pause(self._pace.every)
        try:
            line.target.push(messages)
        except SourceError as error:
            return self._failed(line, error)
        line.alive, line.failures = dict(wanted), 0
        self._told.sent(line.target.url, len(messages))
        return Pause(self._pace.every)

    def _failed(self, line: _Line, error: SourceError) -> Pause:
        line.failures += 1
        self._told.failed(line.target.url, str(error))
        return backoff(line.failures, error)


def backoff(failures: int, error: SourceError) -> Pause:
    """After so many failures in a row: 1 s, 2 s, 4 s, ... 60 s, or as long as the server asks for, at most 10 min."""
    asked = min(error.retry_after, 10 * LONGEST_PAUSE_S) if isinstance(error, RefusedError) else 0.0
    return Pause(max(asked, min(FIRST_PAUSE_S * 2 ** min(failures - 1, 10), LONGEST_PAUSE_S)), patient=True)


# --- silences --------------------------------------------------------------------------------------------------------


class SilenceReader:
    """Reads silences again and again; ``muting`` gives what is known, without asking anybody."""

    def __init__(
        self, targets: Sequence[Alertmanager], told: Told, clock: Callable[[], float], *, every: float = READ_S
    ) -> None:
        self._targets, self._told, self._clock, self._every = tuple(targets), told, clock, every
        self._known: dict[str, tuple[float, Muting]] = {}
        self._failures: dict[str, int] = {}
        self._threads = [
            Periodic(f"silences {target.url}", partial(self._turn, target), partial(told.unread, target.url))
            for target in self._targets
        ]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End."""
        for thread in self._threads:
            thread.stop()
        for target in self._targets:
            target.stop()

    def join(self, seconds: float) -> None:
        """Wait until all threads have ended."""
        for thread in self._threads:
            thread.join(seconds)

    @property
    def muting(self) -> Muting:
        """What the Alertmanagers said last, all together; what is too old is left out."""
        oldest = self._clock() - BELIEVED_S
        return Muting.together(muting for moment, muting in list(self._known.values()) if moment >= oldest)

    def _turn(self, target: Alertmanager) -> Pause:
        try:
            self._known[target.url] = (self._clock(), target.muting())
        except SourceError as error:
            failures = self._failures[target.url] = self._failures.get(target.url, 0) + 1
            self._told.unread(target.url, str(error))
            return Pause(max(backoff(failures, error).seconds, self._every), patient=True)
        self._failures[target.url] = 0
        self._told.read(target.url)
        return Pause(self._every)
