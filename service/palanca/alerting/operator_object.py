"""The same groups as an object of the Prometheus operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import group, text

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix

NAME = "palanca-alerts"


def operator(matrix: Matrix) -> str:
    """Write a ``PrometheusRule``."""
    content: dict[str, object] = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": "palanca"}},
        "spec": {"groups": group.documents(matrix)},
    }
    return text.document(content, group.notes(matrix))
