"""The service over a real Prometheus with the real recordings: the same verdicts as the command line, poll or fresh."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines import RECORDINGS, ROOT, shipped
from tests.faults.service import Running, serving
from tests.live import write_live
from tests.recorded import AT
from tests.servers import prometheus

from palanca.daemon.watch import Duty, Watch
from palanca.model import Diagnosis
from palanca.poll import Question
from palanca.render.document import document
from palanca.sources.prometheus import Prometheus
from palanca.sources.server import PrometheusSource

NAMES = ("kv-saturated", "healthy", "h200-A_kv_saturated")
TOLERANCE = 1e-6


def by_command(name: str, at: float) -> dict[str, Any]:
    """What ``palanca diagnose --recording`` says."""
    done = subprocess.run(
        [sys.executable, "-m", "palanca.cli", "diagnose", "--recording", str(RECORDINGS / f"{name}.om.gz"),
         "--at", f"{at:.3f}", "--format", "json"],
        check=False, capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(ROOT / "service")},
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def differences(left: Any, right: Any, place: str = "") -> Iterator[str]:  # noqa: ANN401  JSON is anything
    """Yield where two documents differ; numbers may by ``TOLERANCE``, relative to their size."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            yield from differences(left.get(key, "nothing"), right.get(key, "nothing"), f"{place}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right, strict=True)):
            yield from differences(*pair, f"{place}[{index}]")
    elif isinstance(left, float) and isinstance(right, (int, float)):
        if abs(left - right) > TOLERANCE * max(1.0, abs(left)):
            yield f"{place}: {left} and {right}"
    elif left != right:
        yield f"{place}: {left!r} and {right!r}"


@contextmanager
def over(name: str, folder: Path) -> Iterator[Running]:
    with (
        prometheus(RECORDINGS / f"{name}.om.gz", folder / "server") as url,
        serving(url, folder / "service") as service,
    ):
        yield service


@pytest.mark.parametrize("name", NAMES)
def test_the_service_says_what_the_command_says(name: str, tmp_path: Path) -> None:
    """Target by target: status, findings, recommendations, signals within 1e-6."""
    with over(name, tmp_path) as service:
        for at in (AT[name], AT[name] - 40.0)[: 2 if name == "kv-saturated" else 1]:
            got = service.get(f"/diagnose?time={at:.3f}")
            assert 200 == got.status
            assert ("ok", None) == (got.body["source"]["state"], got.body["source"]["error"])
            assert [] == list(differences(by_command(name, at)["targets"], got.body["targets"]))


def test_a_poll_says_what_a_fresh_diagnosis_says(tmp_path: Path) -> None:
    """Instants that were kept, and one range over all of it: the same targets at the same moment."""
    now = time.time()
    with (
        prometheus(write_live(tmp_path / "live.om", now), tmp_path / "server") as url,
        serving(url, tmp_path / "service") as service,
    ):
        polled = [service.get("/diagnose").body]
        deadline = time.monotonic() + 40.0
        while len(polled) < 3 and time.monotonic() < deadline:
            latest = service.get("/diagnose").body
            if latest["source"]["state"] == "ok" and latest["time"] != polled[-1]["time"]:
                polled.append(latest)
            time.sleep(0.1)
        assert 3 == len(polled)
        for one in polled[1:]:
            fresh = service.get(f"/diagnose?time={one['time']}").body
            assert [] == list(differences(without_grid(fresh["targets"]), without_grid(one["targets"])))


GRID = {"since", "since_at_least"}
"""Follow from the spacing of the grid, which is the interval of the polls or 15 s."""


def without_grid(targets: Any) -> Any:  # noqa: ANN401  JSON is anything
    if isinstance(targets, list):
        return [without_grid(one) for one in targets]
    if isinstance(targets, dict):
        return {key: without_grid(one) for key, one in targets.items() if key not in GRID}
    return targets


def test_many_polls_are_one_diagnosis(tmp_path: Path) -> None:
    """After twelve polls in a row the kept window gives what a service says that has just been started."""
    with (
        prometheus(RECORDINGS / "kv-saturated.om.gz", tmp_path / "server") as url,
        Prometheus(url) as client,
    ):
        clock = Clock(AT["kv-saturated"] - 120.0)
        old = watching(client, clock)
        for _ in range(12):
            clock.now += 10.0
            old.poll()
        kept = old.view.diagnosis
        new = watching(client, clock).poll().view.diagnosis
        assert isinstance(kept, Diagnosis)
        assert isinstance(new, Diagnosis)
        left, right = (json.loads(document(one).model_dump_json(by_alias=True)) for one in (kept, new))
        assert [] == list(differences(left["targets"], right["targets"]))


class Clock:
    """Unix seconds that move only when a test says so."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def watching(client: Prometheus, clock: Clock) -> Watch:
    duty = Duty("eu", PrometheusSource(client, clock=clock), Question(), 10.0, windowed=True)
    return Watch(duty, shipped(), clock=clock, timer=time.monotonic)
