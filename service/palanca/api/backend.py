"""What the API needs of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.advice.hardware import Hardware
    from palanca.daemon.snapshot import Snapshot
    from palanca.model import Catalogue, Diagnosis, Readings, SourceInfo, Target
    from palanca.poll import Stretch
    from palanca.settings.targets import Knowledge
    from palanca.verify import Verification
    from palanca.verifying import Trial


class Backend(Protocol):
    """The running service as the routes see it."""

    @property
    def snapshot(self) -> Snapshot:
        """The last finished diagnosis."""

    @property
    def catalogue(self) -> Catalogue:
        """The rules in force."""

    @property
    def knowledge(self) -> Knowledge:
        """What the settings say of targets."""

    @property
    def hardware(self) -> Hardware:
        """The GPUs in force, and the reference configurations."""

    def sources(self) -> Sequence[SourceInfo]:
        """Every source as of now."""

    def now(self) -> float:
        """Unix seconds."""

    async def verify(self, source: str, target: Target, trial: Trial) -> Verification:
        """Verify a change at a target of a source. Raises ``BusyError``, ``SourceError`` and ``UsageError``."""

    async def fresh(self, at: float | None) -> Diagnosis:
        """Make a diagnosis now, or of a moment in the past. Raises ``BusyError`` and ``UsageError``."""

    async def series(self, target: Target, stretch: Stretch) -> Readings:
        """Read some signals of one target over a stretch of time.

        Raises ``BusyError``, ``SourceError`` and ``UsageError``.
        """
