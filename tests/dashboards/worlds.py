"""A Prometheus that holds the recordings, palanca's own metrics, and every release under every prefix."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from prometheus_client.parser import text_string_to_metric_families
from tests.daemon.fakes import Clock, watching
from tests.engines import RECORDINGS
from tests.recorded import AT
from tests.render.builders import bad_report, diagnosis, report, unknown
from tests.servers import prometheus
from tests.test_telemetry import Counting

from palanca.daemon.fleet import View
from palanca.daemon.snapshot import taken
from palanca.daemon.watch import Poll
from palanca.model import SourceInfo
from palanca.signals.promql import quote
from palanca.sources.exposition import ExpositionParser
from palanca.sources.prometheus import Asked
from palanca.sources.recording import load
from palanca.telemetry import Telemetry

SAME_SERVER = {"h200-A_kv_saturated": "h200:8000", "h200-A2_kv_fp8": "h200:8000"}
"""Two runs of one server with other flags, one after the other."""
EXPECTED = json.loads((RECORDINGS / "expect.json").read_text(encoding="utf-8"))
MOMENTS = sorted({one["at"] for one in EXPECTED.values()} | set(AT.values()))
"""When each recording shows what it is about."""
PALANCA_AT = AT["kv-saturated"]
"""When palanca's own metrics are there."""
_SCRAPES = 41
_STEPS = 12
_CLASHING = ("job", "instance")


@dataclass(frozen=True)
class Server:
    """A Prometheus to ask."""

    url: str

    def instant(self, expr: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Labels and values of a vector."""
        found = self._ask("query", query=expr, time=f"{at:.3f}")
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in found["result"]]

    def range(self, expr: str, begin: float, end: float, step: float) -> list[tuple[dict[str, str], list[float]]]:
        """Labels and values of a matrix."""
        found = self._ask("query_range", query=expr, start=f"{begin:.3f}", end=f"{end:.3f}", step=f"{step:g}")
        return [(one["metric"], [float(value) for _, value in one["values"]]) for one in found["result"]]

    def values(self, label: str, selector: str, begin: float, end: float) -> list[str]:
        """Values of a label, as Grafana asks for ``label_values(selector, label)``."""
        asked = urllib.parse.urlencode({"match[]": selector, "start": f"{begin:.3f}", "end": f"{end:.3f}"})
        found: list[str] = self._get(f"{self.url}/api/v1/label/{label}/values?{asked}")
        return found

    def _ask(self, path: str, **asked: str) -> Any:  # noqa: ANN401  JSON
        return self._get(f"{self.url}/api/v1/{path}", urllib.parse.urlencode(asked).encode())

    @staticmethod
    def _get(url: str, form: bytes | None = None) -> Any:  # noqa: ANN401  JSON
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=form), timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(
                f"{error.read().decode()}\n{urllib.parse.unquote_plus((form or b'').decode())}"
            ) from None


def _line(out: TextIO, name: str, labels: Mapping[str, str], value: float, at: float) -> None:
    pairs = ",".join(f"{label}={quote(text)}" for label, text in sorted(labels.items()))
    number = "NaN" if np.isnan(value) else "+Inf" if np.isposinf(value) else repr(float(value))
    out.write(f"{name}{{{pairs}}} {number} {at:.3f}\n")


# --- recordings ----------------------------------------------------------------------------------


def instance_of(recording: str) -> str:
    """The recordings are all of one address; here each has its own."""
    return SAME_SERVER.get(recording, f"{recording}:8000")


def write_recordings(out: TextIO) -> None:
    """All recordings, each an instance of its own; in order of time, since samples of a series must be."""
    stores = {name: load(RECORDINGS / f"{name}.om.gz") for name in sorted(EXPECTED.keys() | AT.keys())}
    for name, store in sorted(stores.items(), key=lambda one: one[1].span()):
        for metric in sorted(store.names):
            for block in store.blocks(metric):
                for labels, values in zip(block.labels, block.values, strict=True):
                    own = {**labels, "instance": instance_of(name)}
                    for at, value in zip(block.times.tolist(), values.tolist(), strict=True):
                        _line(out, metric, own, value, at / 1000)


# --- palanca -------------------------------------------------------------------------------------


def telemetry(clock: Clock) -> Iterator[Telemetry]:
    """palanca's metrics, again and again: everything that can happen happens."""
    made = Telemetry(clock)
    source = Counting(clock, asked=Asked(0, 0, 0))
    watch = watching(source, name="eu")
    found = diagnosis(bad_report(), report(1), unknown(2), source=SourceInfo("eu", "http://eu", age_s=3.0))
    for number in range(_SCRAPES):
        source.asked = Asked(3 * number, 40 * number, 500 * number)
        view = View(watch.name, watch.source.url, 30.0)
        result = "ok" if number % 5 else "error"
        made.polled(watch, Poll(clock.now - 3, 0.3, result, view))  # type: ignore[arg-type]
        made.skipped("eu")
        made.served("GET", "/diagnose", 200, 0.004)
        made.history(up=True)
        made.notified("slack", "sent")
        made.published(taken(found, number))
        yield made


def write_palanca(out: TextIO, end: float = PALANCA_AT, *, honoured: bool = False) -> None:
    """What a Prometheus keeps of palanca: labels that are its own it renames, unless it honours the scraped ones."""
    own = {"job": "palanca", "instance": "palanca:9797"}
    clock = Clock(end - 15 * (_SCRAPES - 1))
    for made in telemetry(clock):
        for family in text_string_to_metric_families(made.text().decode()):
            for sample in family.samples:
                labels = dict(sample.labels)
                if honoured:
                    labels = {**own, **labels}
                else:
                    labels = {f"exported_{name}" if name in own else name: text for name, text in labels.items()} | own
                _line(out, sample.name, labels, sample.value, clock.now)
        _line(out, "up", own, 1.0, clock.now)
        clock.now += 15


# --- releases ------------------------------------------------------------------------------------


def write_page(out: TextIO, page: str, labels: Mapping[str, str], end: float, *, prefix: str = "vllm:") -> None:
    """A scraped page as six minutes of load: what counts grows by 1 a step, what is a state stays."""
    samples = ExpositionParser().parse(page.encode()).samples
    for step in range(_STEPS):
        at = end - 30 * (_STEPS - 1 - step)
        for one in samples:
            name = prefix + one.name.removeprefix("vllm:") if one.name.startswith("vllm:") else one.name
            grows = one.name.endswith(("_total", "_bucket", "_sum", "_count"))
            value = one.value + step if grows else one.value
            _line(out, name, {**one.labels, **labels}, value, at)
        _line(out, "up", labels, 1.0, at)


@contextmanager
def serving(folder: Path, write: Iterable[Any]) -> Iterator[Server]:
    """A Prometheus with what these functions write."""
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "all.om"
    with text.open("w", encoding="utf-8") as out:
        for one in write:
            one(out)
        out.write("# EOF\n")
    with prometheus(text, folder / "prometheus") as url:
        yield Server(url)
