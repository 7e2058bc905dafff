"""Releases and engines inferred from what a server exposes: 23 texts of known releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.sample_stores import catalogue, scraped

from palanca.model import VllmVersion
from palanca.releases import Release
from palanca.signals.leaves import Grid
from palanca.signals.samples import SampleReader
from palanca.signals.versions import VersionTable, available

METRICS = catalogue().metrics
TABLE = VersionTable(METRICS)
EXPOSITION = Path(__file__).parents[1] / "data" / "exposition"
TEXTS = sorted(EXPOSITION.rglob("*.txt"))


def test_there_are_texts() -> None:
    """The folder of texts is not empty."""
    assert len(TEXTS) > 20


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_the_true_release_is_in_the_range(path: Path) -> None:
    """The inferred range contains the release of the file name, and the engines contain its engine."""
    found = re.match(r"(.*)-(v[01])(-hidden)?$", path.stem)
    assert found is not None
    release, engine = Release(found[1]), found[2]
    discovery = SampleReader(scraped(path, at=1000), METRICS, Grid(1000, 1, 30)).discover()

    assert discovery.targets
    for target in discovery.targets:
        version = TABLE.infer(discovery.names[target], discovery.info.get(target), target.as_dict())
        assert version is not None
        assert Release(version.first) <= release <= Release(version.last), version
        assert engine in version.engines, version


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_ranges_are_narrow_enough_to_help(path: Path) -> None:
    """No text leaves more than three fifths of all releases open."""
    discovery = SampleReader(scraped(path, at=1000), METRICS, Grid(1000, 1, 30)).discover()
    version = TABLE.infer(
        discovery.names[discovery.targets[0]], discovery.info.get(discovery.targets[0]), discovery.targets[0].as_dict()
    )

    assert version is not None
    inside = [one for one in METRICS.releases if Release(version.first) <= Release(one) <= Release(version.last)]
    assert len(inside) <= len(METRICS.releases) * 0.6, version


@pytest.mark.parametrize(
    ("names", "info", "labels", "expected"),
    [
        (["num_requests_running"], None, [], ("0.4.0", "0.33.0", ("v0", "v1"))),
        (["num_requests_running"], None, ["engine"], ("0.8.3", "0.33.0", ("v1",))),
        (["kv_cache_usage_perc"], None, [], ("0.9.2", "0.33.0", ("v1",))),
        (["kv_cache_usage_perc", "gpu_cache_usage_perc"], None, [], ("0.9.2", "0.11.2", ("v1",))),
        (["num_requests_swapped"], None, [], ("0.4.0", "0.9.0.1", ("v0",))),
        (["num_requests_waiting_by_reason"], None, [], ("0.20.0", "0.33.0", ("v1",))),
        (["up", "process_start_time_seconds"], None, [], None),
        ([], None, [], None),
        (["made_up_metric"], None, ["engine"], None),
        # nothing has both: a patched build or one that is newer than the catalogue
        (["num_requests_swapped", "num_requests_waiting_by_reason"], None, [], ("0.33.0", "0.33.0", ("v1",))),
    ],
)
def test_names_and_labels(
    names: list[str], info: dict[str, str] | None, labels: list[str], expected: tuple[str, str, tuple[str, ...]] | None
) -> None:
    """Each name and the engine label strike out releases; absent names prove nothing."""
    version = TABLE.infer(names, info, labels)

    assert expected == (version and (version.first, version.last, version.engines))


def test_absent_labels_of_the_configuration_count() -> None:
    """Labels of ``cache_config_info`` come all together, so one that is absent strikes out releases too."""
    labels = METRICS.families["cache_config_info"].info_labels
    for release in ("0.4.1", "0.8.5", "0.10.2", "0.24.0", "0.32.0", "0.33.0"):
        info = {label: "1" for label, spans in labels.items() if any(Release(release) in span for span in spans)}
        version = TABLE.infer(["num_requests_running"], info, [])
        assert version is not None
        assert Release(version.first) <= Release(release) <= Release(version.last)
        assert "inferred" == version.provenance

    newest = {label: "1" for label, spans in labels.items() if any(Release("0.33.0") in span for span in spans)}
    only = TABLE.infer(["num_requests_running"], {**newest, "label_of_the_user": "x"}, [])
    assert ("0.33.0", "0.33.0") == (only and (only.first, only.last))


def test_dropped_labels_do_not_overrule_names() -> None:
    """Where the labels that are left fit no release, as with a simulator, the names decide."""
    version = TABLE.infer(["num_requests_swapped"], {"block_size": "16", "num_gpu_blocks": "100"}, [])

    assert ("0.4.0", "0.9.0.1", ("v0",)) == (version and (version.first, version.last, version.engines))


@pytest.mark.parametrize(
    ("family", "version", "expected"),
    [
        ("kv_cache_usage", VllmVersion("0.4.0", "0.4.0", ("v0",), "inferred"), True),
        ("num_requests_waiting_by_reason", VllmVersion("0.19.0", "0.19.1", ("v1",), "inferred"), False),
        ("num_requests_waiting_by_reason", VllmVersion("0.19.0", "0.20.0", ("v1",), "inferred"), True),
        ("num_requests_waiting_by_reason", VllmVersion("0.10.0", "0.10.2", ("v0",), "inferred"), False),
        ("num_requests_swapped", VllmVersion("0.24.0", "0.24.0", ("v1",), "inferred"), False),
        ("num_requests_swapped", VllmVersion("0.9.0", "0.9.0.1", ("v0",), "inferred"), True),
        ("preemptions", VllmVersion("0.7.1", "0.7.3", ("v1",), "inferred"), False),
        ("preemptions", None, True),
    ],
)
def test_available(family: str, version: VllmVersion | None, expected: bool) -> None:
    """A family is available when any release and engine of the range shows it, hidden names included."""
    assert expected == available(METRICS.families[family].names, version)


def test_texts_of_versions() -> None:
    """One release is written alone, a range with a dash."""
    assert "0.26.0" == VllmVersion("0.26.0", "0.26.0", ("v1",), "given").text
    assert "0.24.0-0.33.0" == VllmVersion("0.24.0", "0.33.0", ("v1",), "inferred").text
