"""What the settings say about the exported alerts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.alerting.options import Options, Override

if TYPE_CHECKING:
    from palanca.settings.spec import Settings


def with_settings(options: Options, settings: Settings) -> Options:
    """Add thresholds and objectives per model, and the external URL where the options have none."""
    overrides = [Override(entry.match, thresholds=entry.rules) for entry in settings.thresholds]
    overrides += [Override(entry.match, slo=entry.slo) for entry in settings.targets if entry.slo]
    known = options.external_url
    external = known if known is not None or settings.external_url is None else str(settings.external_url)
    return replace(options, overrides=(*options.overrides, *overrides), external_url=external)
