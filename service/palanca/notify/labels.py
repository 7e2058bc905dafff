"""The labels of alerts: those of a finding, and which engines an alert speaks of. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from palanca.alerting import names
from palanca.render.words import encodable

if TYPE_CHECKING:
    from palanca.model import Finding, Rule, Severity, Target

PUSHED_PREFIX = "Palanca"
"""Begins the names of alerts that palanca pushes: never those of alerts that Prometheus sends."""
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")


def label_name(name: str) -> str:
    """A name that every Alertmanager takes: other characters than letters, digits and ``_`` become ``_``."""
    plain = _NO_LABEL.sub("_", name)
    return f"_{plain}" if plain[:1].isdigit() else plain


def target_labels(target: Target) -> dict[str, str]:
    """Labels of an engine as an alert bears them; of two names that become the same the first one stays."""
    made: dict[str, str] = {}
    for name, value in target.labels:
        made.setdefault(label_name(name), encodable(value))
    return {name: value for name, value in made.items() if value}


def severity_of(rule: Rule, finding: Finding) -> Severity:
    """Severity as an alert bears it: that of the rule, which no other finding changes, so that it stays the same alert.

    A symptom is a warning where its objective is set and nothing explains it, as in the exported files.
    """
    return finding.severity if rule.symptom and finding.role == "root" else "info" if rule.symptom else rule.severity


def alert_labels(rule: Rule, finding: Finding, target: Target, prefix: str) -> dict[str, str]:
    """Labels of the alert of a finding, as the exported files give them; those of the rule go before the engine's."""
    return {
        **target_labels(target),
        "alertname": names.alert_name(rule.id, prefix),
        names.SEVERITY: severity_of(rule, finding),
        names.CAUSE: rule.cause or "unexplained",
        names.RULE: rule.id,
        names.MATURITY: rule.maturity,
    }


def speaks_of(labels: Mapping[str, str], target: Target) -> bool:
    """Whether an alert with these labels is about an engine: no label that tells engines apart differs.

    One that only one side has says nothing: alerts on servers lack ``engine``, sources of palanca add ``cluster``. At
    least one must be the same on both sides.
    """
    return _agree(labels, _identity(target))


def _identity(target: Target) -> dict[str, str]:
    return {name: encodable(value) for name, value in target.labels if name in names.IDENTITY}


def _agree(labels: Mapping[str, str], own: Mapping[str, str]) -> bool:
    shared = [name for name in own if labels.get(name)]
    return bool(shared) and all(labels[name] == own[name] for name in shared)


class Engines:
    """Finds the engines that alerts speak of, without looking at all of them for each alert."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._by_instance: dict[str, list[tuple[Target, dict[str, str]]]] = {}
        self._all = tuple((target, _identity(target)) for target in targets)
        for one in self._all:
            self._by_instance.setdefault(one[1].get("instance", ""), []).append(one)

    def of(self, labels: Mapping[str, str]) -> tuple[Target, ...]:
        """Engines that an alert with these labels speaks of, in their order."""
        instance = labels.get("instance")
        near = self._all
        if instance:
            near = (*self._by_instance.get(instance, ()), *self._by_instance.get("", ()))
        return tuple(target for target, own in near if _agree(labels, own))
