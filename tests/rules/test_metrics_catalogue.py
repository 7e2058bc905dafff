"""``rules/metrics.yaml`` against what vLLM exposes.

``tests/data/exposition/RELEASE-ENGINE[-hidden].txt`` was written by the registration code of that release with the
rest of vLLM stubbed; ``-hidden`` with hidden metrics shown. ``real/`` holds scrapes of running servers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from palanca.model import Family, MetricName, Metrics
from palanca.releases import Release
from palanca.units import Unit

TESTS = Path(__file__).resolve().parents[1]
METRICS = Metrics.model_validate(
    yaml.safe_load((TESTS.parent / "rules" / "metrics.yaml").read_text(encoding="utf-8")),
)
LIVE_PREFIX = "vllm:"
TARGET_LABELS = frozenset({"model_name", "engine", "le"})
ACROSS_PROCESSES = {"counter": "sum", "histogram": "sum", "gauge": "max", "info": "any"}

WRONG_IN_V0 = frozenset({"spec_draft_tokens", "spec_accepted_tokens"})
"""V0 shows these too, with values that must never be used, so the catalogue leaves V0 out."""

NOT_IN_STUBBED_RUN = frozenset({"estimated_flops", "estimated_read_bytes", "estimated_write_bytes"})
"""Registered by another module of vLLM, which only the running server executed."""

LEFT_OUT = frozenset({
    "avg_generation_throughput_toks_per_s", "avg_prompt_throughput_toks_per_s",  # a rate of the counters says it better
    "cpu_prefix_cache_hit_rate",  # of V0's swap space
    "model_execute_time_milliseconds", "model_forward_time_milliseconds",  # V0 with detailed traces only
    "prompt_tokens_recomputed_total",  # one token for each fully cached prompt, gone
    "request_params_best_of",  # gone with 0.6.3
    "spec_decode_efficiency", "spec_decode_num_emitted_tokens_total",  # V0, lifetime or wrong
    "time_in_queue_requests",  # duplicate of request_queue_time_seconds
    "tokens_total",  # never incremented
})  # fmt: skip
"""Names that vLLM exposes and no family has, on purpose."""

_TYPE = re.compile(r"# TYPE (\S+) (\S+)")
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"')
_FILE = re.compile(r"(?P<release>[^-]+)-(?P<engine>v[01])(?P<hidden>-hidden)?")


@dataclass(frozen=True)
class Exposition:
    """One ``/metrics`` text: the type of each name and the label names of each sample line."""

    release: Release
    engine: str
    hidden: bool
    live: bool
    types: Mapping[str, str]
    samples: tuple[tuple[str, frozenset[str]], ...]
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> Exposition:
        """Read a file whose name tells release, engine and whether hidden metrics are shown."""
        named = _FILE.fullmatch(path.stem)
        assert named is not None, f"{path.name} is not named RELEASE-ENGINE[-hidden].txt"
        lines = path.read_text(encoding="utf-8").splitlines()
        typed = (_TYPE.fullmatch(line) for line in lines)
        sampled = (_SAMPLE.fullmatch(line) for line in lines if not line.startswith("#"))
        return cls(
            release=Release(named["release"]),
            engine=named["engine"],
            hidden=named["hidden"] is not None,
            live=path.parent.name == "real",
            types={found[1]: found[2] for found in typed if found},
            samples=tuple((found[1], frozenset(_LABEL.findall(found[2] or ""))) for found in sampled if found),
            lines=tuple(lines),
        )

    def labels(self, name: str, kind: str) -> Iterator[frozenset[str]]:
        """Label names of each sample line of one metric."""
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        wanted = {name + suffix for suffix in suffixes}
        return (labels for sample, labels in self.samples if sample in wanted)


FILES = sorted((TESTS / "data" / "exposition").rglob("*.txt"))
EXPOSITIONS = [
    pytest.param(Exposition.read(path), id=f"{path.stem}{'-live' if path.parent.name == 'real' else ''}")
    for path in FILES
]
every_exposition = pytest.mark.parametrize("exposition", EXPOSITIONS)


def each_name() -> Iterator[tuple[str, Family, MetricName, str]]:
    """Every name of every family: id, family, name, and the name as vLLM itself exposes it."""
    for family_id, family in METRICS.families.items():
        for name in family.names:
            yield family_id, family, name, LIVE_PREFIX + name.name if family.prefixed else name.name


def expected(name: MetricName, exposition: Exposition) -> bool:
    """Whether the catalogue says that this server shows the name."""
    if exposition.engine == "v0":
        visible, hidden = name.v0, name.hidden_v0
    else:
        visible, hidden = name.v1, name.hidden_v1
    ranges = (visible, hidden) if exposition.hidden else (visible,)
    return any(span is not None and exposition.release in span for span in ranges)


def test_expositions_are_there() -> None:
    """All 22 registered expositions and a live one are read, and no sample line is misunderstood."""
    registered = [path for path in FILES if path.parent.name != "real"]
    assert len(registered) == 22
    assert len(FILES) > 22
    for path in FILES:
        samples = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
        assert len(samples) == len(Exposition.read(path).samples), path.name


@every_exposition
def test_name_in_its_range_is_exposed(exposition: Exposition) -> None:
    """A name whose range covers the release is exposed there, unless it needs a feature."""
    missing = [
        full
        for family_id, family, name, full in each_name()
        if family.prefixed
        and family.only_if is None
        and (exposition.live or family_id not in NOT_IN_STUBBED_RUN)
        and expected(name, exposition)
        and full not in exposition.types
    ]
    assert missing == []


@every_exposition
def test_name_outside_its_range_is_not_exposed(exposition: Exposition) -> None:
    """A name whose range does not cover the release is not exposed there."""
    surplus = [
        full
        for family_id, family, name, full in each_name()
        if family.prefixed
        and not (exposition.engine == "v0" and family_id in WRONG_IN_V0)
        and not expected(name, exposition)
        and full in exposition.types
    ]
    assert surplus == []


def test_v0_counters_left_out_are_really_there() -> None:
    """The exception for V0's wrong counters is needed, and their notes say so."""
    v0 = [Exposition.read(path) for path in FILES if "-v0" in path.stem]
    for family_id in WRONG_IN_V0:
        family = METRICS.families[family_id]
        assert all(name.v0 is None and name.hidden_v0 is None for name in family.names)
        assert any(LIVE_PREFIX + name.name in one.types for name in family.names for one in v0)
        assert "V0" in (family.note or "")


@pytest.mark.parametrize("family_id", sorted(WRONG_IN_V0))
@every_exposition
def test_engine_label_tells_v1_counters_from_wrong_v0_ones(exposition: Exposition, family_id: str) -> None:
    """What the notes promise: V1 series of these counters have an engine label, V0 series do not."""
    for name in METRICS.families[family_id].names:
        for labels in exposition.labels(LIVE_PREFIX + name.name, "counter"):
            assert ("engine" in labels) == (exposition.engine == "v1")


@every_exposition
def test_type_agrees(exposition: Exposition) -> None:
    """The type is the exposed one; an info family is exposed as a gauge."""
    wrong = [
        (full, family.type, exposition.types[full])
        for _, family, _, full in each_name()
        if full in exposition.types and exposition.types[full] != ("gauge" if family.type == "info" else family.type)
    ]
    assert wrong == []


@every_exposition
def test_own_labels_agree(exposition: Exposition) -> None:
    """Sample lines have the family's own labels and no others besides model_name, engine and le."""
    wrong = [
        (full, sorted(labels))
        for _, family, _, full in each_name()
        if family.type != "info"
        for labels in exposition.labels(full, family.type)
        if labels - TARGET_LABELS != set(family.labels)
    ]
    assert wrong == []


@every_exposition
def test_scope_agrees(exposition: Exposition) -> None:
    """A family of an engine has model_name, on V1 from 0.8.3 also engine; a family of a server has no engine."""
    needed = {"model_name"}
    if exposition.engine == "v1" and exposition.release >= Release("0.8.3"):
        needed.add("engine")
    wrong = [
        (full, sorted(labels))
        for _, family, _, full in each_name()
        if family.type != "info"
        for labels in exposition.labels(full, family.type)
        if (not needed <= labels if family.scope == "engine" else "engine" in labels)
    ]
    assert wrong == []


@every_exposition
def test_info_labels_agree(exposition: Exposition) -> None:
    """Labels of cache_config_info are known and in their range; a running server has all of that release."""
    family = METRICS.families["cache_config_info"]
    known = {label for label, spans in family.info_labels.items() if any(exposition.release in span for span in spans)}
    for name in family.names:
        for labels in exposition.labels(LIVE_PREFIX + name.name, family.type):
            found = labels - {"engine"}
            assert found <= known
            assert not exposition.live or found == known


@every_exposition
def test_label_values_agree(exposition: Exposition) -> None:
    """V1 shows every reason at once: those with releases of their own in these only."""
    (name,) = METRICS.families["request_success"].names
    lines = [one for one in exposition.lines if one.startswith(LIVE_PREFIX + name.name)]
    for value, spans in METRICS.families["request_success"].label_values["finished_reason"].items():
        if lines and exposition.engine == "v1":
            shown = any(f'finished_reason="{value}"' in one for one in lines)
            assert shown == any(exposition.release in span for span in spans), value


@every_exposition
def test_every_exposed_name_is_known(exposition: Exposition) -> None:
    """A name that vLLM exposes belongs to a family or is left out on purpose."""
    known = {full for _, _, _, full in each_name()} | {LIVE_PREFIX + name for name in LEFT_OUT}
    names = {name for name in exposition.types if name.startswith(LIVE_PREFIX) and not name.endswith("_created")}
    assert names - known == set()


def test_prefixes() -> None:
    """The live prefixes are the four that vLLM, Ray and KServe give."""
    assert METRICS.prefixes == ("vllm:", "ray_vllm_", "kserve_vllm:", "vllm_")


def test_releases_are_in_order() -> None:
    """All 79 releases are listed once, in order."""
    releases = [Release(text) for text in METRICS.releases]
    assert len(releases) == 79
    assert releases == sorted(set(releases))
    assert (METRICS.releases[0], METRICS.releases[-1]) == ("0.4.0", "0.33.0")


def test_ranges_end_at_known_releases() -> None:
    """Every range begins and ends with a release of the list."""
    known = {Release(text) for text in METRICS.releases}
    ranges = [span for _, _, name, _ in each_name() for span in (name.v0, name.v1, name.hidden_v0, name.hidden_v1)]
    labelled = [family.info_labels for family in METRICS.families.values()]
    labelled += [values for family in METRICS.families.values() for values in family.label_values.values()]
    ranges += [span for one in labelled for spans in one.values() for span in spans]
    ends = {end for span in ranges if span is not None for end in (span.first, span.last)}
    assert ends <= known


def test_hidden_follows_visible() -> None:
    """A name is hidden only after it was visible, never at the same time, and every name is visible somewhere."""
    for _, _, name, full in each_name():
        assert name.v0 is not None or name.v1 is not None, full
        for visible, hidden in ((name.v0, name.hidden_v0), (name.v1, name.hidden_v1)):
            if hidden is not None:
                assert visible is not None, full
                assert visible.last is not None, full
                assert visible.last < hidden.first, full


def test_engines_keep_to_their_releases() -> None:
    """V0 ended with 0.10.2, V1 shows vLLM metrics from 0.7.1 on."""
    for _, family, name, full in each_name():
        for span in (name.v0, name.hidden_v0):
            assert span is None or (span.last is not None and span.last <= Release("0.10.2")), full
        for span in (name.v1, name.hidden_v1):
            assert span is None or not family.prefixed or span.first >= Release("0.7.1"), full


def test_names_are_unique() -> None:
    """No name belongs to two families, no key of the file is written twice, no name carries a prefix."""
    names = Counter(name.name for _, _, name, _ in each_name())
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if name.startswith(METRICS.prefixes)] == []
    text = (TESTS.parent / "rules" / "metrics.yaml").read_text(encoding="utf-8")
    written = re.findall(r"^  ([a-z][a-z0-9_]*):$", text, flags=re.MULTILINE)
    assert written == list(METRICS.families)


def test_newest_name_stands_first() -> None:
    """The preferred name is the one that lasts longest."""
    for family_id, family in METRICS.families.items():
        lasts = [span.last for name in family.names if (span := name.v1 or name.v0) and span.last]
        assert lasts == sorted(lasts, reverse=True), family_id


@pytest.mark.parametrize("family_id", METRICS.families)
def test_family_is_consistent(family_id: str) -> None:
    """Adding up fits the type, the unit is known, counters end in _total, sentences are sentences."""
    family = METRICS.families[family_id]
    assert family.across_processes == ACROSS_PROCESSES[family.type]
    assert Unit.parse(family.unit) is not None
    assert family.meaning.endswith(".")
    assert not family.info_labels or family.type == "info"
    assert not family.labels or family.type != "info"
    for name in family.names:
        if family.type == "counter":
            assert name.name.endswith("_total")
        if family.type == "histogram":
            assert not name.name.endswith(("_bucket", "_sum", "_count"))
