"""A linter for Prometheus rules about vLLM. Pure: rules come as texts, what a Prometheus has as ``Live``.

``lint`` runs the checks of ``table``; each is a function from a rule to remarks.
"""

from palanca.linting.finding import SEVERITIES, Finding, Live, Severity
from palanca.linting.report import LintReport, lint

__all__ = ["SEVERITIES", "Finding", "LintReport", "Live", "Severity", "lint"]
