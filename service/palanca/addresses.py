"""Addresses of the web page, below that of the service: what messages, alerts and dashboards link to."""

from __future__ import annotations

FLEET = "/"
ENGINE = "/engine"
"""With ``model`` and ``instance``, or any labels; where several engines fit, one can be chosen."""
RULES = "/rules"
"""The matrix; a rule with its runbook is below it."""
