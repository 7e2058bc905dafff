"""The exported files by format: a further one is a function and a line in the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palanca.alerting.alertmanager import alertmanager
from palanca.alerting.group import prometheus
from palanca.alerting.operator_object import operator
from palanca.alerting.promtool_tests import tests
from palanca.alerting.templates import templates

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix


@dataclass(frozen=True)
class Format:
    """One file: its name, what it is, and how it is written."""

    file: str
    title: str
    write: Callable[[Matrix], str]


def _alertmanager(matrix: Matrix) -> str:
    options = matrix.options
    known = options.routing.external_url or options.external_url
    return alertmanager(matrix.catalogue, replace(options.routing, external_url=known), options.alert_prefix)


def _templates(matrix: Matrix) -> str:
    del matrix
    return templates()


FORMATS: Mapping[str, Format] = {
    "prometheus": Format("prometheus.yaml", "Rule file of Prometheus, Thanos, Mimir and vmalert.", prometheus),
    "operator": Format("operator.yaml", "PrometheusRule object of the Prometheus operator.", operator),
    "alertmanager": Format("alertmanager.yaml", "Configuration of Alertmanager.", _alertmanager),
    "templates": Format("palanca.tmpl", "Templates that the configuration of Alertmanager names.", _templates),
    "tests": Format("tests.yaml", "Tests of the rule file for promtool test rules.", tests),
}
