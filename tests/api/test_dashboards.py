"""The dashboards over REST."""

from __future__ import annotations

import pytest
from tests.api.apps import fleet, world
from tests.api.test_diagnose import fault
from tests.engines import shipped

from palanca.alerting.options import Override
from palanca.dashboards.export import DASHBOARDS, Exported
from palanca.dashboards.options import Options

OTHER = Options(overrides=(Override(slo={"ttft_p99": 2.5}),), external_url="https://p.example")
NONE = Options(prefixes=("x_",))


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_dashboard(name: str) -> None:
    """As the command line writes it, for the settings in force."""
    answer = world(fleet(), dashboards=lambda: OTHER).get(f"/api/v1/dashboards/{name}.json")
    assert (200, "application/json") == (answer.status, answer["Content-Type"])
    assert Exported.of(shipped(), OTHER).file(name) == answer.text
    assert f"palanca-{name}" == answer.json["uid"]


def test_it_is_written_once_and_anew() -> None:
    """The same dashboard has the same tag; other settings give another one."""
    chosen = [Options()]
    mine = world(fleet(), dashboards=lambda: chosen[0])
    first = mine.get("/api/v1/dashboards/five.json")
    assert 304 == mine.get("/api/v1/dashboards/five.json", If_None_Match=first["ETag"]).status
    chosen[0] = OTHER
    second = mine.get("/api/v1/dashboards/five.json", If_None_Match=first["ETag"])
    assert (200, True) == (second.status, "https://p.example/?time=" in second.text)


def test_faults_are_told() -> None:
    """A parameter that does not exist, a dashboard that does not, options that do not fit."""
    mine = world(fleet(), dashboards=lambda: NONE)
    assert "prefix" in fault(mine.get("/api/v1/dashboards/five.json", "prefix=x"), 422)
    assert 404 == mine.get("/api/v1/dashboards/six.json").status
    assert "the prefix 'x_' is not known" in fault(mine.get("/api/v1/dashboards/fleet.json"), 400)
