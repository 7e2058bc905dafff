"""The history where the settings switch it off: nothing is kept, and every answer says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from palanca.errors import HistoryError
from palanca.history.documents import EpisodesDocument, EventsDocument, OneEpisodeDocument, StateDocument

if TYPE_CHECKING:
    from palanca.history.reader import EpisodeQuery, EventQuery

REASON = "the history is switched off in the settings (history.enabled)"


class NoHistory:
    """Answers as ``History`` does."""

    def episodes(self, _: EpisodeQuery | None = None) -> EpisodesDocument:
        """No episodes."""
        return EpisodesDocument(history=_OFF, episodes=(), next=None)

    def events(self, _: EventQuery | None = None) -> EventsDocument:
        """No events."""
        return EventsDocument(history=_OFF, events=(), next=None)

    def episode(self, _: int) -> OneEpisodeDocument:
        """No episode."""
        return OneEpisodeDocument(history=_OFF, episode=None)

    def acknowledge(self, *_: object) -> NoReturn:
        """Raise ``HistoryError``: it would not be kept."""
        raise HistoryError(REASON)

    def attach_verification(self, *_: object) -> NoReturn:
        """Raise ``HistoryError``: it would not be kept."""
        raise HistoryError(REASON)


_OFF = StateDocument(enabled=False, reason=REASON, since=None)
