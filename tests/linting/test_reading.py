"""Rules out of all forms of files, with their places, comments and faults."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.linting.linted import GOOD, file_of, ids, linted, vocabulary
from tests.permissions import nobody
from tests.servers import tool

from palanca.errors import RuleFileError
from palanca.linting import lint, loaded
from palanca.linting.rule import LintRule
from palanca.sources.rule_files import read_files, read_text

DEAD = "vllm:gpu_cache_usage_perc > 0.9"


def rules(text: str) -> tuple[LintRule, ...]:
    return read_text("rules.yml", text.encode()).rules


def places(text: str, check: str = "removed-name") -> list[tuple[int, int]]:
    return [(one.line, one.column) for one in linted(text).findings if one.check == check]


@pytest.mark.parametrize(
    ("scalar", "line"),
    [
        ("max(vllm:gpu_cache_usage_perc) > 0.9", 4),
        ("'max(vllm:gpu_cache_usage_perc) > 0.9'", 4),
        ('"max(vllm:gpu_cache_usage_perc) > 0.9"', 4),
        ('"max(vllm:num_requests_waiting{a=\\"b\\"}) > 1 or max(vllm:gpu_cache_usage_perc) > 0.9"', 4),
        ("'max(x{a=''b''}) > 1 or max(vllm:gpu_cache_usage_perc) > 0.9'", 4),
        ("|\n          max(\n            vllm:gpu_cache_usage_perc) > 0.9", 6),
        (">-\n          max(\n          vllm:gpu_cache_usage_perc) > 0.9", 6),
        ("max(\n          vllm:gpu_cache_usage_perc) > 0.9", 5),
        ('"max(\\n  vllm:gpu_cache_usage_perc) > 0.9"', 4),
        ('"max(x) > 1 and \\\n          max(vllm:gpu_cache_usage_perc) > 0.9"', 5),
        ("|\n          # comment\n\n          max(vllm:gpu_cache_usage_perc) > 0.9", 7),
    ],
)
def test_places_in_every_style_of_yaml(scalar: str, line: int) -> None:
    """Line and column are those of the file, whatever YAML does to the text."""
    text = f"groups:\n  - name: g\n    rules:\n      - expr: {scalar}\n        alert: A\n"
    alternatives = text.replace("> 1 or max(", "> 1 and max(")
    ((found, column),) = places(alternatives)
    assert line == found
    assert alternatives.splitlines()[found - 1][column - 1 :].startswith("vllm:gpu_cache_usage_perc")


@given(
    st.lists(st.sampled_from(["max(", " ", "\n", "vllm:gpu_cache_usage_perc", ")", ' {a="b"}', " > 0.9",
    " or ", "'", "é", "\\d", "# c\n", "\t"]), min_size=1, max_size=8),
    st.sampled_from(['"', "'", "|", ">", None]),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_places_lie_on_their_characters(parts: list[str], style: str | None) -> None:
    """Each character that is no space is found at its place, in any style that YAML can write it."""
    value = "".join(parts)
    rule = {"alert": "A", "expr": value}
    text = yaml.dump({"groups": [{"name": "g", "rules": [rule]}]}, default_style=style, allow_unicode=True)
    (one,) = rules(text)
    assert one.expression is not None
    lines = text.split("\n")
    for offset, letter in enumerate(one.expression.value):
        line, column = one.expression.place(offset)
        if not letter.isspace():
            written = lines[line - 1][column - 1]
            assert written in (letter, "\\"), (text, offset, letter)


def test_every_form_is_read() -> None:
    """Operator objects, lists of them, Helm values, mixins, ConfigMaps, several documents."""
    group = {"groups": [{"name": "g", "rules": [{"alert": "A", "expr": DEAD}]}]}
    forms: list[Any] = [
        group,
        {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "spec": group},
        {"kind": "List", "items": [{"kind": "PrometheusRule", "spec": group}]},
        {"additionalPrometheusRulesMap": {"vllm": group}},
        {"prometheusAlerts": group, "prometheusRules": {"groups": []}, "grafanaDashboards": {}},
        {"kind": "ConfigMap", "data": {"rules.yml": yaml.safe_dump(group)}},
        {"serverFiles": {"alerting_rules.yml": group}},
    ]
    for form in forms:
        for text in (yaml.safe_dump(form), json.dumps(form), json.dumps(form, indent="\t")):
            (one,) = rules(text)
            assert ("A", DEAD) == (one.name, one.text)
            (place,) = places(text)
            line = text.splitlines()[place[0] - 1]
            assert line[place[1] - 1 :].startswith("vllm:gpu"), (text, place)
    whole = "---\n".join(yaml.safe_dump(form) for form in forms)
    assert len(forms) == len(rules(whole))


def test_texts_inside_texts() -> None:
    """A ConfigMap with a block keeps the lines of the file."""
    inner = "\n".join("    " + line for line in file_of({"expr": DEAD}).splitlines())
    text = f"kind: ConfigMap\ndata:\n  rules.yml: |\n{inner}\n"
    ((line, column),) = places(text)
    assert text.splitlines()[line - 1][column - 1 :].startswith("vllm:gpu")


def test_anchors_and_merged_keys() -> None:
    text = (
        "x: &common {severity: warning}\ngroups:\n- name: g\n  rules:\n"
        "  - &a {alert: A, expr: 'vllm:num_requests_waiting > 5', for: 5m, labels: {<<: *common, team: a},"
        " annotations: {summary: s}}\n  - <<: *a\n    alert: B\n"
    )
    one, two = rules(text)
    assert ({"severity", "team"}, "B", "vllm:num_requests_waiting > 5") == (set(one.labels), two.name, two.text)
    assert ["absent-guard"] == ids(linted(text).findings)


def test_comments_silence_checks() -> None:
    """In the rule, in its expression, behind a value, and in the lines directly above it."""

    def text(above: str = "", inside: str = "", first: str = "") -> str:
        return (
            f"{first}groups:\n- name: g\n  rules:\n{above}  - alert: A\n    expr: |\n      {DEAD} {inside}\n"
            "    for: 5m\n    labels: {severity: warning}\n    annotations: {summary: s}\n"
            f"  - alert: B\n    expr: {DEAD}\n    for: 5m\n"
        )  # fmt: skip

    def dead(one: str) -> list[str]:
        return [finding.rule for finding in linted(one).findings if finding.check == "removed-name"]

    assert ["A", "B"] == dead(text())
    assert ["B"] == dead(text(above="  # palanca:ignore removed-name\n"))
    assert ["B"] == dead(text(above="  # palanca:ignore no-for, removed-name: we know\n  # more\n"))
    assert ["A", "B"] == dead(text(above="  # palanca:ignore removed-name\n\n"))
    assert ["B"] == dead(text(inside="# palanca:ignore removed-name"))
    assert ["A", "B"] == dead(text(inside="# palanca:ignore no-for"))
    assert [] == dead(text(first="# palanca:ignore-file removed-name\n"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("just: words\n", "holds no rules"),
        ("groups: [\n", "rules.yml:2:1: not YAML"),
        ("a: b: c\n", "rules.yml:1:5: not YAML"),
        ("a: \x01\n", "rules.yml:1:4: not YAML"),
        ("{{- if .Values.on }}\ngroups: []\n{{- end }}\n", "render the template first"),
        ("[" * 5000, "not YAML"),
        ("ALERT x IF 'abc\n", "rules.yml:1:12: the text that begins with ' does not end"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, says: str) -> None:
    with pytest.raises(RuleFileError) as caught:
        read_text("rules.yml", text.encode())
    assert says in str(caught.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(RuleFileError, match=r"rules\.yml:2:1: not UTF-8"):
        read_text("rules.yml", b"a: b\n\xff")


def test_line_ends_of_windows_and_a_mark_of_byte_order() -> None:
    text = file_of({"expr": DEAD})
    assert places(text) == [
        (one.line, one.column)
        for one in lint([read_text("a", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())], vocabulary()).findings
        if one.check == "removed-name"
    ]


def test_prometheus_1_in_many_lines() -> None:
    """Labels over several lines, recording rules, comments between."""
    text = (
        '# a comment\njob:waiting:max{job="vllm"} = max(vllm:num_requests_waiting)\n\nALERT Slow\n'
        "  IF histogram_quantile(0.99, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 2\n    AND\n"
        '  vllm:gpu_cache_usage_perc > 0.9\n  FOR 10m\n  LABELS {\n    severity = "critical",\n    team = "a"\n  }\n'
        '  ANNOTATIONS {\n    summary = "slow",\n    description = "FOR a while: {{ $value }}",\n  }\n'
    )
    record, alert = rules(text)
    assert ("record", "job:waiting:max", "max(vllm:num_requests_waiting)") == (record.kind, record.name, record.text)
    assert ("alert", "Slow", 600.0) == (alert.kind, alert.name, alert.for_s)
    assert {"severity": "critical", "team": "a"} == {name: words.value for name, words in alert.labels.items()}
    assert "FOR a while: {{ $value }}" == alert.annotations["description"].value
    assert [(7, 3)] == places(text)
    mended = next(one for one in linted(text).findings if one.check == "prometheus-1-syntax" and one.rule == "Slow")
    (group,) = [yaml.safe_load(mended.corrected or "")]
    assert "vllm:kv_cache_usage_perc" in group[0]["expr"]
    assert "10m" == group[0]["for"]


def test_rules_of_a_prometheus() -> None:
    """Places count inside the expression."""
    groups: list[Any] = [
        {"name": "g", "file": "/etc/a.yml", "rules": [
            {"type": "alerting", "name": "A", "query": DEAD, "duration": 300,
            "labels": {"severity": "warning"}, "annotations": {"summary": "s"}},
            {"type": "recording", "name": "r:x", "query": "max(vllm:num_requests_waiting)"},
            {"type": "alerting", "name": "B", "query": "r:x > 5", "duration": 0},
            "rubbish",
        ]},
        {"name": "h", "file": "/etc/b.yml", "rules": None},
        {},
    ]  # fmt: skip
    sources = loaded.read(groups)
    assert ["/etc/a.yml", "/etc/b.yml", "rules"] == [one.path for one in sources]
    report = lint(sources, vocabulary())
    assert {"A": {"removed-name", "absent-guard"}, "B": {"no-for", "incomplete-alert"}} == {
        rule: {one.check for one in report.findings if one.rule == rule} for rule in ("A", "B")
    }
    dead = next(one for one in report.findings if one.check == "removed-name")
    assert ("expression", 1, 1, "/etc/a.yml") == (dead.where, dead.line, dead.column, dead.path)


def test_rules_about_other_things_are_left_alone() -> None:
    """Only their shape is looked at."""
    text = file_of({"expr": "avg(node_load1) > 90", "for": None, "labels": {}}, {"expr": "rate(node_load1[5s])"})
    report = linted(text)
    assert (3, 1, []) == (report.rules, report.judged, ids(report.findings))


@pytest.mark.parametrize("rest", ["", ' "text" }', ' x > 1 LABELS { a = "b" }'])
def test_an_alert_of_prometheus_1_without_its_parts(rest: str) -> None:
    """Found by fuzzing: one of which no part is known is a rule without expression."""
    report = linted(f"ALERT A{rest}\n")
    assert ["the rule has no expression"] == [one.message for one in report.findings if "expression" in one.message]


# --- files -----------------------------------------------------------------------------------------


def test_files_and_folders(tmp_path: Path) -> None:
    """A folder gives whatever holds rules; a file that is named must hold some."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yml").write_text(file_of({"expr": DEAD}))
    (tmp_path / "b.rules").write_text(f"ALERT A IF {DEAD}\n")
    (tmp_path / "values.yaml").write_text("a: b\n")
    (tmp_path / "notes.txt").write_text("no yaml: here: at all")
    read = read_files([str(tmp_path)], lambda: b"")
    assert ["b.rules", "a.yml"] == [Path(one.path).name for one in read.sources]
    assert () == read.faults
    named = read_files([str(tmp_path / "values.yaml"), str(tmp_path / "gone.yml"), "-"], file_of({"expr": DEAD}).encode)
    assert ["-"] == [one.path for one in named.sources]
    assert ["gone.yml: cannot be read: No such file or directory", "values.yaml: holds no rules"] == sorted(
        f"{one.path.name}: {one.message}" for one in named.faults
    )
    assert ["-: holds no rules"] == [f"{one.path}: {one.message}" for one in read_files(["-"], lambda: b"").faults]
    (tmp_path / "empty").mkdir()
    (fault,) = read_files([str(tmp_path / "empty")], lambda: b"").faults
    assert "no file in it holds rules" == fault.message


def test_links_and_folders_that_cannot_be_read(tmp_path: Path) -> None:
    """A rule file that was moved away, a link to itself, and a folder of somebody else are told; a pipe is no file."""
    (tmp_path / "good.yml").write_text(file_of({"expr": DEAD}))
    (tmp_path / "gone.yml").symlink_to("moved.yml")
    (tmp_path / "linked.yml").symlink_to("good.yml")
    (tmp_path / "self.yaml").symlink_to("self.yaml")
    os.mkfifo(tmp_path / "pipe.yml")
    (tmp_path / "folder.yml").mkdir()
    read = read_files([str(tmp_path)], lambda: b"")
    assert ["good.yml", "linked.yml"] == [Path(one.path).name for one in read.sources]
    assert [
        "gone.yml: cannot be read: No such file or directory",
        "self.yaml: cannot be read: Too many levels of symbolic links",
    ] == [f"{one.path.name}: {one.message}" for one in read.faults]


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "good.yml").write_text(file_of({"expr": DEAD}))
    (tmp_path / "secret").mkdir(mode=0o000)
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "other.yml").write_text(file_of({"expr": DEAD}))
    (tmp_path / "listed").chmod(0o444)
    with nobody(tmp_path):
        read = read_files([str(tmp_path)], lambda: b"")
    assert (1, ["other.yml: cannot be read: Permission denied", "secret: cannot be read: Permission denied"]) == (
        len(read.sources), sorted(f"{one.path.name}: {one.message}" for one in read.faults),
    )  # fmt: skip


def test_a_mounted_config_map(tmp_path: Path) -> None:
    """Its files are links into a hidden folder: each is read once, under its name."""
    (tmp_path / "..2026_11").mkdir()
    (tmp_path / "..2026_11" / "rules.yml").write_text(file_of({"expr": DEAD}))
    (tmp_path / "..data").symlink_to("..2026_11")
    (tmp_path / "rules.yml").symlink_to("..data/rules.yml")
    (tmp_path / ".rules.yml").write_text("left by an editor")
    read = read_files([str(tmp_path)], lambda: b"")
    assert ([str(tmp_path / "rules.yml")], ()) == ([one.path for one in read.sources], read.faults)


EMPTY = ["", "\n  \n", "# nothing yet\n", "---\n", "---\n---\n", "{}\n", "groups:\n", "groups: []\n"]
EMPTY += ["groups: [{name: g, rules: []}]\n", "groups:\n- name: g\n"]
OTHER = ["just: words\n", "[]\n", "text\n", "groups: [a, b]\n", "groups: []\nother: 1\n"]


@pytest.mark.parametrize("text", EMPTY + OTHER)
def test_empty_files_are_those_of_promtool(tmp_path: Path, text: str) -> None:
    """What promtool takes for a file without rules is one, and what it refuses is not."""
    (tmp_path / "rules.yml").write_text(text)
    done = subprocess.run(
        [tool("promtool"), "check", "rules", "rules.yml"],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert (text in EMPTY, text in EMPTY) == (done.returncode == 0, "0 rules found" in done.stdout)
    for path in (tmp_path, tmp_path / "rules.yml"):
        read = read_files([str(path)], lambda: b"")
        assert [()] * (text in EMPTY) == [one.rules for one in read.sources]
        assert (text in OTHER) == bool(read.faults)


# --- whatever there is -----------------------------------------------------------------------------

WORDS = st.sampled_from([
    "groups", "rules", "name", "alert", "record", "expr", "for", "labels", "annotations", "spec", "items",
    "severity", "<<", "5m",
    DEAD, "vllm:num_requests_waiting", "sum(", "{{ $value }}", "# palanca:ignore no-for", "ALERT A IF x > 1",
    "", "null", "[", "&a", "*a",
])  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(WORDS, st.none(), st.integers(), st.floats(), st.booleans(), st.text(max_size=10)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=3)), inner, max_size=5)
    ),
    max_leaves=30,
)


def lints(text: str) -> None:
    with suppress(RuleFileError):
        source = read_text("fuzz.yml", text.encode("utf-8", "replace"))
        for one in lint([source], vocabulary()).findings:
            assert min(one.line, one.column) >= 1


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_no_yaml_breaks_it(value: object) -> None:
    lints(yaml.safe_dump(value, allow_unicode=True))
    lints(
        yaml.safe_dump({"groups": [{"rules": [value, {"alert": value, "expr": value, "labels": value, "for": value}]}]})
    )


@given(
    st.lists(st.one_of(WORDS, st.sampled_from([": ", "\n", "  ", "- ", "|", ">", "'", '"', "---\n"])), max_size=25).map(
        "".join
    )
)
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    lints(text)


EXPRESSIONS = st.lists(st.sampled_from([
    "vllm:kv_cache_usage_perc", "vllm:num_preemptions_total", "vllm:e2e_request_latency_seconds_bucket",
    '{le="120"}', '{le=~"1|x"}',
    "[5m]", "[5m:1m]", "rate(", "sum by (le) (", "histogram_quantile(0.9, ", ")", " > ", " / ", " and ",
    " or ", "90", " - ", "vllm:nope", '{__name__=~".*"}',
    " * 100", "absent(", "avg(", " offset 1h", "vllm:gpu_prefix_cache_hit_rate", "bool ", "on (a) ", "-",
]), max_size=12).map("".join)  # fmt: skip


@given(EXPRESSIONS)
@settings(max_examples=500, deadline=None)
def test_no_expression_breaks_it(expression: str) -> None:
    """Nor is any correction worse than nothing: what was mended has no error of that kind left."""
    lints(file_of({"expr": expression, **GOOD}))
