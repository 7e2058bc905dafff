"""Entries of ``match`` that fit nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.settings.files import loaded
from tests.settings.test_checkup import faults, warnings

from palanca.settings import examine
from palanca.settings.load import Flag
from palanca.settings.matches import odd_matches

SOURCES = """\
sources:
  - {name: a, prometheus: http://a, labels: {cluster: paris, team: x}, match: {job: vllm}}
  - {name: b, prometheus: http://b, labels: {cluster: madrid}, match: {job: vllm}}
"""
THRESHOLD = "thresholds:\n  - match: {%s}\n    rules: {kv-leak: {held: 0.7}}\n"
TARGET = "targets:\n  - match: {%s}\n    gpus: 2\n"


def route(text: str, path: str = "direct") -> str:
    """A route on the fourth line of its section."""
    return (
        f"notify:\n  path: {path}\n  routes:\n    - {{{text}, to: [ops]}}\n  webhooks: [{{name: ops, url: http://x}}]\n"
    )


@pytest.mark.parametrize("path", ["direct", "alertmanager"])
def test_alerts_of_rules_that_do_not_exist(tmp_path: Path, path: str) -> None:
    """At their place, with the nearest that does, on both paths."""
    said = "palanca.yaml:4:30: there is no rule 'kv-leek' (did you mean kv-leak?)"
    assert [said] == faults(tmp_path, route("match: {palanca_rule: kv-leek}", path))
    assert [] == faults(tmp_path, route("match: {palanca_rule: kv-leak}", path))


@pytest.mark.parametrize("section", [THRESHOLD, TARGET, route("match: {%s}")])
@pytest.mark.parametrize(
    ("match", "said"),
    [
        ("cluster: parris", "no source has targets with cluster 'parris'"),
        ("cluster: parris", "(did you mean paris?)"),
        ("cluster: oslo", "(one of paris, madrid)"),
        ("cluster: ''", "no source has targets with cluster ''"),
        ("job: vlm", "no source has targets with job 'vlm'"),
        ("job: vlm", "(did you mean vllm?)"),
        ("replica: a", "targets have no label replica: this fits nothing (copies of a Prometheus"),
        ("pid: '3'", "targets have no label pid"),
        ("severity: critical", "targets have no label severity"),
        ("alertname: VllmKvLeak", "targets have no label alertname"),
    ],
)
def test_what_no_target_has(tmp_path: Path, section: str, match: str, said: str) -> None:
    """A warning with the place, and what may be meant."""
    (found,) = warnings(tmp_path, SOURCES + section % match)
    assert said in found
    label, _, _ = match.partition(":")
    lines = (SOURCES + section % match).splitlines()
    line = next(number for number, one in enumerate(lines, 1) if match in one)
    column = lines[line - 1].index(match) + len(label) + len(": ") + 1 + ("'" in match)
    assert found.startswith(f"palanca.yaml:{line}:{column}: ")


@pytest.mark.parametrize("section", [THRESHOLD, TARGET, route("match: {%s}"), route("match: {%s}", "alertmanager")])
@pytest.mark.parametrize("match", ["cluster: paris", "cluster: madrid, job: vllm", "model_name: m", "team: y"])
def test_what_some_target_may_have(tmp_path: Path, section: str, match: str) -> None:
    """A value of any source, and labels that not every source fixes."""
    assert [] == warnings(tmp_path, SOURCES + section % match)


def test_a_route_for_one_source(tmp_path: Path) -> None:
    """Its labels alone count."""
    (found,) = warnings(
        tmp_path, SOURCES + route("source: [a], match: {cluster: madrid, team: y}").replace(", team: y", "")
    )
    assert "no source has targets with cluster 'madrid': the route never fits (one of paris)" in found
    (found,) = warnings(tmp_path, SOURCES + route("source: [a], match: {team: y}"))
    assert "with team 'y'" in found


def test_on_the_path_of_alertmanager(tmp_path: Path) -> None:
    """Alerts of others come that way too."""
    (found,) = warnings(tmp_path, SOURCES + route("match: {cluster: parris}", "alertmanager"))
    assert (
        "'parris': it fits alerts of engines that palanca does not watch, and no others (did you mean paris?)" in found
    )
    assert [] == warnings(tmp_path, SOURCES + route("match: {alertname: Watchdog, replica: a}", "alertmanager"))


@pytest.mark.parametrize(
    ("match", "said"),
    [
        (
            "severity: critcal",
            "no alert of palanca has the severity 'critcal': this fits alerts of others only (did you",
        ),
        ("severity: page", "no alert of palanca has the severity 'page': this fits alerts of others only"),
        ("cause: kv-capacty", "(did you mean kv-capacity or "),
    ],
)
def test_labels_of_alerts(tmp_path: Path, match: str, said: str) -> None:
    """Where palanca watches by itself, what it finds is routed by keys of their own."""
    (found,) = warnings(tmp_path, route(f"match: {{{match}}}", "alertmanager"))
    assert said in found
    assert [] == warnings(tmp_path, route("match: {severity: critical, cause: hang}", "alertmanager"))
    (found,) = warnings(tmp_path, route(f"match: {{{match}}}"))
    assert "targets have no label" in found
    assert "in its place" in found


def test_labels_that_are_spelt_wrong(tmp_path: Path) -> None:
    """Only those close to what every engine has; a label that a source gives is one."""
    (found,) = warnings(tmp_path, route("match: {modelname: m, team: a}"))
    assert "no target of vLLM has a label modelname by itself (did you mean model_name?)" in found
    text = "sources: [{name: eu, prometheus: http://a, labels: {clusters: eu}}]\n"
    assert [] == warnings(tmp_path, text + THRESHOLD % "clusters: eu")


def test_labels_by_default(tmp_path: Path) -> None:
    """A Prometheus may know clusters by itself; what palanca scrapes does not."""
    text = "sources: [{name: eu, prometheus: http://a}, {name: lab, scrape: [http://b]}]\n"
    assert [] == warnings(tmp_path, text + THRESHOLD % "cluster: eu-1")
    (found,) = warnings(
        tmp_path, text.replace("prometheus: http://a", "scrape: [http://a]") + THRESHOLD % "cluster: eu-1"
    )
    assert "with cluster 'eu-1': it fits no target (did you mean eu?)" in found


def test_a_match_on_what_lacks_a_label(tmp_path: Path) -> None:
    """Those targets have what the source gives."""
    text = "sources: [{name: eu, prometheus: http://a, match: {cluster: ''}, labels: {cluster: eu}}]\n"
    assert [] == warnings(tmp_path, text + THRESHOLD % "cluster: eu")
    assert 1 == len(warnings(tmp_path, text + THRESHOLD % "cluster: ''"))


def test_sources_that_are_not_those_of_the_file(tmp_path: Path) -> None:
    """Flags replace them for a trial, and faulty ones are left out: nothing is known then."""
    text = SOURCES + THRESHOLD % "cluster: oslo"
    assert 1 == len(list(odd_matches(loaded(tmp_path, text))))
    flag = Flag("--prometheus", ("sources",), [{"name": "prometheus", "prometheus": "http://c"}])
    assert [] == list(odd_matches(loaded(tmp_path, text, {}, flag)))
    assert [] == list(odd_matches(examine(tmp_path / "palanca.yaml", {"PALANCA_SOURCES__0__TIMEOUT": "never"})))
