"""The exported files over REST."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from tests.api.apps import fleet, world
from tests.api.test_diagnose import fault
from tests.engines import shipped

from palanca.alerting.export import FORMATS
from palanca.alerting.matrix import Matrix
from palanca.alerting.options import Options, Override
from palanca.api.alerts import files
from palanca.errors import UsageError

TWO = Options(overrides=(Override({"model_name": "llama"}, slo={"ttft_p99": 2.0}),), external_url="https://p.example")
NONE = Options(rules=("no-such-rule",))


@pytest.mark.parametrize("name", FORMATS)
def test_each_file(name: str) -> None:
    """As the command line writes it, for the settings in force."""
    one = FORMATS[name]
    answer = world(fleet(), alerts=lambda: TWO).get(f"/api/v1/alerts/{one.file}")
    kind = "text/plain" if name == "templates" else "application/yaml"
    assert (200, f"{kind}; charset=utf-8") == (answer.status, answer["Content-Type"])
    assert one.write(Matrix(shipped(), TWO)) == answer.text
    assert name == "templates" or yaml.safe_load(answer.text)


def test_it_is_written_once_and_anew() -> None:
    """The same file has the same tag; other settings and other rules give another one."""
    chosen = [Options()]
    mine = world(fleet(), alerts=lambda: chosen[0])
    first = mine.get("/api/v1/alerts/prometheus.yaml")
    known = mine.get("/api/v1/alerts/prometheus.yaml", If_None_Match=first["ETag"])
    assert 304 == known.status
    chosen[0] = TWO
    second = mine.get("/api/v1/alerts/prometheus.yaml", If_None_Match=first["ETag"])
    assert 200 == second.status
    assert "p.example" in second.text
    mine.backend.catalogue = replace(shipped(), rules=shipped().rules[:3])
    assert len(mine.get("/api/v1/alerts/prometheus.yaml").text) < len(second.text) / 2


def test_who_waits_for_a_fault_is_told_it_too() -> None:
    """And it is tried again by the next one who asks."""
    written = files(lambda: (shipped(), NONE))
    for _ in range(2):
        with pytest.raises(UsageError):
            written.packed("prometheus")


def test_faults_are_told() -> None:
    """A parameter that does not exist, a file that does not, settings that fit no rule."""
    mine = world(fleet(), alerts=lambda: NONE)
    assert "rule" in fault(mine.get("/api/v1/alerts/tests.yaml", "rule=x"), 422)
    assert 404 == mine.get("/api/v1/alerts/other.yaml").status
    assert "no rule fits 'no-such-rule'" in fault(mine.get("/api/v1/alerts/operator.yaml"), 400)
