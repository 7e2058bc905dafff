"""Alertmanagers in the running service: alerts are pushed after each poll, silences shown at the findings they mute."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from palanca.logs import logger
from palanca.notify.alertmanager import Alertmanager, Pusher, Reply, SilenceReader
from palanca.notify.periodic import Pause, Periodic
from palanca.notify.pushed import moved_on, pushed
from palanca.notify.silences import Marker, Muting
from palanca.notify.webhook import retry_after
from palanca.sources.session import CarefulSession, split_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from palanca.daemon.snapshot import Snapshot
    from palanca.daemon.watch import Poll, Watch
    from palanca.episodes import Episode, Key
    from palanca.model import Catalogue, Diagnosis
    from palanca.sources.session import Access
    from palanca.telemetry import Telemetry

RECEIVER = "alertmanager"
LONGEST_STOP_S = 1.0
IDLE_S = 3600.0
LARGEST_ANSWER = 64 * 1024**2


@dataclass(frozen=True)
class Contacts:
    """The Alertmanagers of the settings. ``access`` by URL; ``rules`` are the ids of those that are pushed.

    Without ``silences`` none are read.
    """

    access: Mapping[str, Access] = field(default_factory=dict)
    rules: frozenset[str] = frozenset()
    silences: bool = True
    external_url: str | None = None


class SessionWire:
    """Asks one Alertmanager; satisfies ``palanca.notify.alertmanager.Wire``. ``url`` may hold user and password."""

    def __init__(self, url: str, access: Access) -> None:
        self.url, self._access = split_url(url, access)
        self._session = CarefulSession(self._access, self.url)

    def ask(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """Send a request. Raises ``SourceError``."""
        answer = self._session.request(
            method, self.url + path, params=body, headers={"Content-Type": "application/json"} if body else None
        )
        return Reply(
            answer.status_code, answer.content, retry_after(answer.headers.get("Retry-After"), time.time()) or 0.0
        )

    def stop(self) -> None:
        """End what is under way; nothing can be asked afterwards."""
        self._session.stop()


class _Journal:
    """Says in the log and in the metrics how it goes; of what goes on failing only the first time."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry, self._log, self._lock = telemetry, logger(RECEIVER), threading.Lock()
        self._failing: set[tuple[str, str]] = set()

    def sent(self, url: str, alerts: int) -> None:
        self._telemetry.notified(RECEIVER, "sent")
        self._recovered("push", url)
        self._log.debug("pushed", url=url, alerts=alerts)

    def failed(self, url: str, reason: str) -> None:
        self._telemetry.notified(RECEIVER, "failed")
        self._fails("push", url, reason)

    def read(self, url: str) -> None:
        self._recovered("read", url)

    def unread(self, url: str, reason: str) -> None:
        self._fails("read", url, reason)

    def _fails(self, what: str, url: str, reason: str) -> None:
        with self._lock:
            known = (what, url) in self._failing
            self._failing.add((what, url))
        if not known:
            text = {"push": "alerts cannot be pushed", "read": "silences cannot be read"}[what]
            self._log.warning(f"{text}; it is tried again", url=url, error=reason)

    def _recovered(self, what: str, url: str) -> None:
        with self._lock:
            known = (what, url) in self._failing
            self._failing.discard((what, url))
        if known:
            self._log.info("Alertmanager has recovered", url=url)


class Alertmanagers:
    """Is told by the daemon what is published; nothing here waits for a server.

    ``contacts`` and ``catalogue`` give what is in force; ``clock`` unix seconds.
    """

    def __init__(self, telemetry: Telemetry, catalogue: Callable[[], Catalogue], clock: Callable[[], float]) -> None:
        self._catalogue, self._clock, self._journal = catalogue, clock, _Journal(telemetry)
        self._contacts = Contacts()
        self._newest: Snapshot | None = None
        self._episodes: Mapping[Key, Episode] = {}
        self._moving = threading.Lock()
        self._digest: Periodic | None = None
        self._pusher: Pusher | None = None
        self._reader: SilenceReader | None = None

    def use(self, contacts: Contacts) -> None:
        """Speak with these from now on; what fires goes on firing, and what is not pushed any more is ended."""
        before = {} if self._pusher is None else self._pusher.alive
        self._end()
        self._contacts = contacts
        made = [Alertmanager(SessionWire(url, access)) for url, access in contacts.access.items()]
        if made and (contacts.rules or any(before.values())):
            self._pusher = Pusher(made, self._journal, self._clock, before=before)
            self._digest = Periodic("alerts", self._digested, partial(self._journal.failed, ""))
            self._pusher.start()
            self._digest.start()
            self._digest.news()
        if made and contacts.silences:
            made = [Alertmanager(SessionWire(url, access)) for url, access in contacts.access.items()]
            self._reader = SilenceReader(made, self._journal, self._clock)
            self._reader.start()

    def stop(self) -> None:
        """End; takes ``LONGEST_STOP_S`` at most."""
        ending = self._end()
        for one in ending:
            one.join(LONGEST_STOP_S / len(ending))

    def _end(self) -> list[Pusher | SilenceReader | Periodic]:
        ending = [one for one in (self._digest, self._pusher, self._reader) if one is not None]
        for one in ending:
            one.stop()
        self._digest = self._pusher = self._reader = None
        return ending

    def marked(self, diagnosis: Diagnosis) -> Diagnosis:
        """Return a diagnosis of now with the silences at its findings."""
        muting = Muting() if self._reader is None else self._reader.muting
        return Marker(self._catalogue().rules, self._contacts.rules, muting, self._clock()).marked(diagnosis)

    def polled(self, watch: Watch, poll: Poll) -> None:
        """Nothing is pushed of one source alone."""

    def skipped(self, name: str) -> None:
        """Nothing is pushed of a poll that was not made."""

    def published(self, snapshot: Snapshot) -> None:
        """Let the alerts be those of the newest diagnosis; they are made in another thread."""
        self._newest = snapshot
        if self._digest is not None:
            self._digest.news()

    def _digested(self) -> Pause:
        with self._moving:  # the thread from before a reload may still be at it
            newest, pusher, contacts, catalogue = self._newest, self._pusher, self._contacts, self._catalogue()
            if newest is not None and pusher is not None:
                self._episodes = moved_on(self._episodes, newest.diagnosis, catalogue, contacts.rules)
                pusher.want(pushed(self._episodes.values(), catalogue, contacts.external_url))
        return Pause(IDLE_S)
