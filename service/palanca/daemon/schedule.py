"""When to poll: at multiples of the interval, each a little late by chance, so that replicas do not ask all at once."""

from __future__ import annotations

import random
from datetime import UTC, datetime

from apscheduler.triggers.base import BaseTrigger

LARGEST_JITTER_S = 3.0
JITTER = 0.1
"""Share of the interval."""


class Aligned(BaseTrigger):  # type: ignore[misc]  # apscheduler ships no types
    """Fires at every multiple of ``interval`` seconds since 1970, up to a tenth of it (3 s at most) late.

    APScheduler's own trigger adds its jitter to the time of the last run, and so drifts.
    """

    __slots__ = ("_interval", "_jitter")

    def __init__(self, interval: float) -> None:
        self._interval, self._jitter = interval, min(interval * JITTER, LARGEST_JITTER_S)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """Return the next moment after both; a previous one far ahead is from before the clock was set back."""
        after = now.timestamp()
        if previous_fire_time is not None and previous_fire_time.timestamp() - after < self._interval:
            after = max(after, previous_fire_time.timestamp())
        moment = (after // self._interval + 1) * self._interval
        return datetime.fromtimestamp(moment + random.uniform(0, self._jitter), UTC)  # noqa: S311  no secret
