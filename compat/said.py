"""What is compared of two diagnoses: everything that they say, save for the values of signals."""

from __future__ import annotations

from typing import Any


def said(report: dict[str, Any]) -> object:
    """Of one target in the document of a diagnosis: findings, recommendations and their values, what is unknown."""
    keys = ("rule", "cause", "state", "severity", "role", "confidence")
    proposals = ("lever", "direction", "flag", "proposed", "argument")
    return (
        report["target"],
        report["status"],
        report["vllm"],
        [
            ([finding[key] for key in keys], [[made[key] for key in proposals] for made in finding["recommendations"]])
            for finding in report["findings"]
        ],
        [one["rule"] for one in report["unknown"]],
        report["not_applicable"],
    )
