"""A recording as a source: the moment, the matchers, and what is said when they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.engines import RECORDINGS, shipped

from palanca.errors import NoTargetsError, RecordingError, UsageError
from palanca.poll import Question
from palanca.sources.recording import RecordingSource, known_names

HEALTHY = RECORDINGS / "healthy.om.gz"
START, END = 1_700_000_000, 1_700_000_600
HOSTILE = 'a"b\\c\nd.*[é] 漢'


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def recording(folder: Path, models: Mapping[str, str], extra: str = "") -> Path:
    """A recording of one engine for each model: model name to instance."""
    lines = []
    for model, instance in models.items():
        labels = f'job="vllm",instance="{instance}",engine="0",model_name="{escaped(model)}"'
        for name in ("vllm:num_requests_running", "vllm:kv_cache_usage_perc"):
            lines += [f"{name}{{{labels}}} 0.5 {time}" for time in range(START, END + 1, 15)]
        lines += [f'up{{job="vllm",instance="{instance}"}} 1 {time}' for time in range(START, END + 1, 15)]
    path = folder / "run.om"
    path.write_text("\n".join(lines) + f"\n{extra}# EOF\n", encoding="utf-8")
    return path


def models(path: Path, matchers: Mapping[str, str]) -> list[str]:
    opened = RecordingSource(path).open(Question(matchers=matchers), shipped())
    return sorted(target.get("model_name") for target in opened.reader.discover().targets)


def refusal(path: Path, question: Question) -> str:
    with pytest.raises(NoTargetsError) as caught:
        RecordingSource(path).open(question, shipped())
    return str(caught.value)


def test_the_newest_sample_is_now() -> None:
    """Without a moment the grid ends at the last sample, and the data are of age 0."""
    opened = RecordingSource(HEALTHY).open(Question(), shipped())
    assert 1795982013.347 == pytest.approx(opened.grid.end, abs=20)
    assert ("recording", str(HEALTHY), 0.0, "ok") == (
        opened.describe().name, opened.describe().url, opened.describe().age_s, opened.describe().state,
    )  # fmt: skip


def test_a_moment_inside(tmp_path: Path) -> None:
    """A moment inside is where the grid ends; the age says how much lies after it."""
    path = recording(tmp_path, {"m": "a:8000"})
    for moment in (START, START + 100.5, END):
        opened = RecordingSource(path).open(Question(at=moment), shipped())
        assert (moment, END - moment) == (opened.grid.end, opened.describe().age_s)


@pytest.mark.parametrize("moment", [START - 0.001, END + 0.001, 0.0, 1e11])
def test_a_moment_outside(tmp_path: Path, moment: float) -> None:
    """A moment outside is refused with the span of the recording."""
    path = recording(tmp_path, {"m": "a:8000"})
    with pytest.raises(
        UsageError, match=r"--at .*Z is outside the recording .* from 2023-11-14T22:13:20Z to 2023-11-14T22:23:20Z$"
    ):
        RecordingSource(path).open(Question(at=moment), shipped())


def test_other_series_do_not_count(tmp_path: Path) -> None:
    """Series that are not vLLM's neither move the newest sample nor make a recording of vLLM."""
    path = recording(tmp_path, {"m": "a:8000"}, f"node_load1 3 {END + 900}\n")
    assert END == RecordingSource(path).open(Question(), shipped()).grid.end


@pytest.mark.parametrize("text", ["# EOF\n", "node_load1 3 1700000000\n# EOF\n", 'up{job="x"} 1 1700000000\n# EOF\n'])
def test_without_vllm_series(tmp_path: Path, text: str) -> None:
    """A readable recording without vLLM series says which it looked for."""
    path = tmp_path / "run.om"
    path.write_text(text, encoding="utf-8")
    assert f"{path}: has no vLLM series (looked for vllm:*, " in refusal(path, Question()) + ", "


def test_missing_file(tmp_path: Path) -> None:
    """What cannot be loaded is an error of the recording."""
    with pytest.raises(RecordingError, match="no such file"):
        RecordingSource(tmp_path / "none.om").open(Question(), shipped())


@pytest.mark.parametrize(
    ("matchers", "found"),
    [
        ({}, ["a.c", "abc", HOSTILE]),
        ({"model_name": "abc"}, ["abc"]),
        ({"model_name": "a.c"}, ["a.c"]),
        ({"model_name": HOSTILE}, [HOSTILE]),
        ({"job": "vllm"}, ["a.c", "abc", HOSTILE]),
        ({"instance": "b:8000"}, ["a.c"]),
        ({"engine": "0", "model_name": "abc"}, ["abc"]),
    ],
)
def test_matchers(tmp_path: Path, matchers: dict[str, str], found: list[str]) -> None:
    """A matcher is an exact value, not an expression: quotes, newlines and dots are themselves."""
    path = recording(tmp_path, {"abc": "a:8000", "a.c": "b:8000", HOSTILE: "c:8000"})
    assert sorted(found) == models(path, matchers)


@pytest.mark.parametrize(
    "matchers",
    [
        {"model_name": "ab"}, {"model_name": ".*"}, {"model_name": "ABC"}, {"pod": "x"},
        {"model_name": "abc", "instance": "b:8000"}, {"model_name": 'abc"} or {x="'},
    ],
)  # fmt: skip
def test_matchers_that_select_nothing(tmp_path: Path, matchers: dict[str, str]) -> None:
    """The labels that exist are listed, on one line each whatever is in them."""
    path = recording(tmp_path, {"abc": "a:8000", "x\ny\x1b[31m" + "z" * 200: "b:8000"})
    lines = refusal(path, Question(matchers=matchers)).splitlines()
    assert lines[0].endswith("selects nothing; labels that exist:")
    assert ["  engine: 0", "  instance: a:8000, b:8000", "  job: vllm"] == lines[1:4]
    assert lines[4].startswith("  model_name: abc, x\\ny\\x1b[31mzzz")
    assert lines[4].endswith("z...")
    assert 5 == len(lines)


def test_few_values_are_listed(tmp_path: Path) -> None:
    """Of many values eight are shown."""
    path = recording(tmp_path, {f"m{index:02}": f"{index:02}:8000" for index in range(20)})
    line = refusal(path, Question(matchers={"model_name": "x"})).splitlines()[-1]
    assert "  model_name: m00, m01, m02, m03, m04, m05, m06, m07" == line


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("vllm:num_requests_running", True), ("ray_vllm_num_requests_running", True), ("up", True),
        ("vllm:time_to_first_token_seconds_bucket", True), ("vllm:time_to_first_token_seconds_sum", True),
        ("vllm:time_to_first_token_seconds", False), ("process_start_time_seconds", True), ("node_load1", False),
        ("vllm:num_requests_running_created", False),
    ],
)  # fmt: skip
def test_known_names(name: str, known: bool) -> None:
    """Only series of the catalogue are kept, under every live prefix."""
    assert known == known_names(shipped().metrics)(name)
