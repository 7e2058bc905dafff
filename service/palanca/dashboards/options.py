"""What a user can choose about the dashboards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from palanca.alerting import options as alerting

if TYPE_CHECKING:
    from palanca.alerting.options import Matcher, Override
    from palanca.model import Catalogue
    from palanca.releases import ReleaseRange


@dataclass(frozen=True)
class Options:
    """What the dashboards are like.

    ``releases`` None means all that are known, no ``prefixes`` all live ones. ``recorded`` reads signals that the
    exported rules record from their recorded series. Of the ``overrides`` those that hold for all targets change
    thresholds and objectives: a panel that shows many engines has one line.
    """

    releases: ReleaseRange | None = None
    prefixes: tuple[str, ...] = ()
    selector: tuple[Matcher, ...] = ()
    external_url: str | None = None
    recorded: bool = False
    overrides: tuple[Override, ...] = field(default_factory=tuple)

    def alerting(self, catalogue: Catalogue) -> alerting.Options:
        """The same choice for the exported rules. Raises ``UsageError`` for what does not fit the catalogue."""
        return alerting.Options(
            releases=self.releases,
            prefixes=self.prefixes or catalogue.metrics.prefixes,
            selector=self.selector,
            overrides=self.overrides,
            external_url=self.external_url,
        ).checked(catalogue)
