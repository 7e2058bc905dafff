"""What the settings say about the dashboards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.alerting import options as alerting
from palanca.settings import alerts

if TYPE_CHECKING:
    from palanca.dashboards.options import Options
    from palanca.settings.spec import Settings


def with_settings(options: Options, settings: Settings) -> Options:
    """Add thresholds and objectives, and the external URL where the options have none: the same as for alerts."""
    before = alerting.Options(overrides=options.overrides, external_url=options.external_url)
    same = alerts.with_settings(before, settings)
    return replace(options, overrides=same.overrides, external_url=same.external_url)
