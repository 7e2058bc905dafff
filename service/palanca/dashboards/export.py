"""The exported files by name: a further dashboard is a ``Spec`` and a line in the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.dashboards.board import Spec, dashboard, text
from palanca.dashboards.diagnosis import DIAGNOSIS
from palanca.dashboards.engine import ENGINE_BOARD
from palanca.dashboards.five import FIVE
from palanca.dashboards.fleet import FLEET
from palanca.dashboards.itself import ITSELF
from palanca.dashboards.kit import Kit
from palanca.dashboards.provisioning import PROVISIONING

if TYPE_CHECKING:
    from palanca.dashboards.options import Options
    from palanca.model import Catalogue

DASHBOARDS: Mapping[str, Spec] = {one.name: one for one in (FIVE, FLEET, ENGINE_BOARD, ITSELF, DIAGNOSIS)}


@dataclass(frozen=True)
class Exported:
    """The dashboards of a catalogue for one choice of options. Raises ``UsageError``."""

    kit: Kit

    @classmethod
    def of(cls, catalogue: Catalogue, options: Options) -> Exported:
        """Check the options against the catalogue."""
        return cls(Kit(catalogue, options))

    def file(self, name: str) -> str:
        """The JSON of one dashboard."""
        return text(dashboard(DASHBOARDS[name], self.kit))

    def files(self) -> dict[str, str]:
        """All files by their paths: the dashboards and what provisions them."""
        return {**{f"{name}.json": self.file(name) for name in DASHBOARDS}, **PROVISIONING}
