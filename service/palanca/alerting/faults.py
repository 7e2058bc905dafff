"""Why a rule cannot be an alert of Prometheus."""

from __future__ import annotations


class NotExportableError(ValueError):
    """A rule that is no expression over series; the message says why."""
