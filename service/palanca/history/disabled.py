"""The history where there is none: nothing is kept, and every answer says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from palanca.errors import HistoryError
from palanca.history.documents import EpisodesDocument, EventsDocument, OneEpisodeDocument, StateDocument

if TYPE_CHECKING:
    from palanca.history.reader import EpisodeQuery, EventQuery

REASON = "the history is switched off in the settings (history.enabled)"


class NoHistory:
    """Answers as ``History`` does; ``reason`` says why there is none."""

    def __init__(self, reason: str = REASON) -> None:
        self.reason = reason

    @property
    def _off(self) -> StateDocument:
        return StateDocument(enabled=False, reason=self.reason, since=None)

    def begin(self) -> None:
        """Nothing is kept."""

    def episodes(self, _: EpisodeQuery | None = None) -> EpisodesDocument:
        """No episodes."""
        return EpisodesDocument(history=self._off, episodes=(), next=None)

    def events(self, _: EventQuery | None = None) -> EventsDocument:
        """No events."""
        return EventsDocument(history=self._off, events=(), next=None)

    def episode(self, _: int) -> OneEpisodeDocument:
        """No episode."""
        return OneEpisodeDocument(history=self._off, episode=None)

    def acknowledge(self, *_: object) -> NoReturn:
        """Raise ``HistoryError``: it would not be kept."""
        raise HistoryError(self.reason)

    def attach_verification(self, *_: object) -> NoReturn:
        """Raise ``HistoryError``: it would not be kept."""
        raise HistoryError(self.reason)
