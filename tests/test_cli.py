"""The command line as a user runs it: a process, its output and its exit code."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.engines import RECORDINGS, ROOT, Value, catalogue, readings, rule
from tests.render.builders import diagnosis, unknown

from palanca import __version__
from palanca.commands.diagnose import exit_code
from palanca.diagnosis import diagnose as diagnose_readings
from palanca.model import Status

SATURATED = RECORDINGS / "kv-saturated.om.gz"
HEALTHY = RECORDINGS / "healthy.om.gz"
AT = "2026-11-29T20:09:11.17Z"
SCHEMA = json.loads((ROOT / "docs" / "schema" / "diagnosis-v1.schema.json").read_text(encoding="utf-8"))
HOSTILE = 'a"b\\c\nd.*[é] \x1b[31m漢{}'
RULE = (ROOT / "rules" / "matrix" / "kv-cache" / "kv-cache-saturated.yaml").read_text(encoding="utf-8")


def palanca(
    *arguments: str | Path,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    stdout: int = subprocess.PIPE,
) -> subprocess.CompletedProcess[str]:
    """Run the program; a traceback is never right."""
    done = subprocess.run(
        [sys.executable, "-m", "palanca.cli", *arguments],
        check=False, stdout=stdout, stderr=subprocess.PIPE, text=True, cwd=cwd, timeout=60, encoding="utf-8",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "service"), **(environment or {})},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


def diagnose(recording: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return palanca("diagnose", "--recording", recording, *arguments)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON on stdout, which must be strict and valid."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found: dict[str, Any] = json.loads(done.stdout, parse_constant=refuse)
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)
    return found


def first_recommendations(found: dict[str, Any]) -> dict[str, Any]:
    return {one["lever"]: one for one in found["targets"][0]["findings"][0]["recommendations"]}


@cache
def text_of(recording: Path) -> str:
    return gzip.decompress(recording.read_bytes()).decode()


def saturated(**changes: str) -> str:
    """The saturated recording with some values or labels changed: name of the series or label to what it becomes."""
    text = text_of(SATURATED)
    for name, value in changes.items():
        if name == "model_name":
            shown = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            text = text.replace('model_name="tiny-llama"', f'model_name="{shown}"')
        else:
            text = re.sub(rf"(?m)^(vllm:{name}\{{[^}}]*\}}) \S+", rf"\g<1> {value}", text)
    return text


def written(folder: Path, text: str | bytes, name: str = "run.om") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- the program ---------------------------------------------------------------------------------


def test_version() -> None:
    """The version stands on one line."""
    done = palanca("--version")
    assert (0, f"palanca {__version__}\n", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["diagnose", "rules", "--version"]),
        (["diagnose", "--help"],
         ["--recording", "--at", "--window", "--match", "--serve-args", "--format", "--fail-on", "--rules", "Exit"]),
        (["rules", "--help"], ["list", "show", "check", "test"]),
    ],
)  # fmt: skip
def test_help(arguments: list[str], words: list[str]) -> None:
    """Help names every command and option, and calls the program by its name."""
    done = palanca(*arguments, environment={"COLUMNS": "120"})
    assert 0 == done.returncode
    assert "Usage: palanca" in done.stdout
    assert [] == [word for word in words if word not in done.stdout]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], ""),
        (["rules"], ""),
        (["bogus"], "No such command 'bogus'"),
        (["diagnose"], "palanca: nothing to read; give one of URL, --prometheus URL, --scrape URL or --recording FILE"),
        (["diagnose", "--bogus"], "No such option"),
        (["diagnose", "--recording", HEALTHY, "--format", "xml"], "Invalid value for '--format'"),
        (["diagnose", "--recording", HEALTHY, "--fail-on", "info"], "Invalid value for '--fail-on'"),
        (["diagnose", "--recording", HEALTHY, "--window", "5x"], "palanca: --window: '5x' is not a duration"),
        (["diagnose", "--recording", HEALTHY, "--window", "0s"], "palanca: --window must be longer than 0"),
        (["diagnose", "--recording", HEALTHY, "--window", "9" * 400 + "s"], "is longer than 100 years"),
        (["diagnose", "--recording", HEALTHY, "--match", "x"], "palanca: --match 'x' is not LABEL=VALUE"),
        (["diagnose", "--recording", HEALTHY, "--match", "a-b=x"], "palanca: --match 'a-b=x' is not LABEL=VALUE"),
        (["diagnose", "--recording", HEALTHY, "--match", "a=x", "--match", "a=y"], "--match gives a two values"),
        (["diagnose", "--recording", HEALTHY, "--serve-args", "--x 'y"], "palanca: --serve-args cannot be read"),
        (["diagnose", "--recording", HEALTHY, "--serve-args", "--max-num-seqs x"], "'x' is not a number"),
        (["diagnose", "--recording", HEALTHY, "--at", "soon"], "palanca: 'soon' is no moment"),
        (["diagnose", "--recording", HEALTHY, "--at", "-999999d"], "palanca: '-999999d' is no moment"),
        (["diagnose", "--recording", HEALTHY, "--at", "2026-11-29T20:09:11"], "has no time zone"),
        (["diagnose", "--recording", HEALTHY, "--at", "0"], "--at 1970-01-01T00:00:00Z is outside the recording"),
        (["diagnose", "--recording", HEALTHY, "--rules", "none"], "palanca: none: is not a folder"),
        (["rules", "show", "kv-cache-saturate"], "did you mean kv-cache-saturated"),
        (["rules", "show", "zzz"], "palanca rules list shows them"),
        (["rules", "test", "none.yaml"], "palanca: none.yaml does not exist"),
    ],
)  # fmt: skip
def test_usage_errors(arguments: list[str | Path], message: str) -> None:
    """What cannot be meant exits with 2 and one message on stderr; nothing but help is on stdout."""
    done = palanca(*arguments, environment={"COLUMNS": "200"})
    assert 2 == done.returncode
    assert message in done.stderr
    assert not done.stdout or arguments in ([], ["rules"])


# --- diagnose ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recording", "arguments", "code"),
    [
        (HEALTHY, [], 0),
        (RECORDINGS / "idle.om.gz", [], 0),
        (SATURATED, ["--at", AT], 1),
        (SATURATED, ["--at", AT, "--fail-on", "critical"], 1),
        (RECORDINGS / "token-budget-bound.om.gz", ["--at", "1795983748.105"], 1),
        (RECORDINGS / "token-budget-bound.om.gz", ["--at", "1795983748.105", "--fail-on", "critical"], 0),
        (HEALTHY, ["--window", "1s"], 3),
    ],
)
def test_exit_codes(recording: Path, arguments: list[str], code: int) -> None:
    """0 nothing at or above --fail-on, 1 findings, 3 no engine could be judged."""
    assert code == diagnose(recording, *arguments).returncode


@pytest.mark.parametrize("output", ["text", "json", "markdown"])
def test_formats(output: str) -> None:
    """Each format has the finding and its lever on stdout, plain, and nothing on stderr."""
    done = diagnose(SATURATED, "--at", AT, "--format", output)
    assert (1, "") == (done.returncode, done.stderr)
    assert "KV cache is full and requests are being preempted" in done.stdout
    assert "num-gpu-blocks-override" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stdout.endswith("\n")
    if output == "json":
        document(done)


def test_narrow_text() -> None:
    """Piped text is as wide as COLUMNS says."""
    done = palanca("diagnose", "--recording", SATURATED, "--at", AT, environment={"COLUMNS": "60"})
    assert 60 >= max(len(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("at", "time"),
    [
        (AT, "2026-11-29T20:09:11.170Z"),
        ("2026-11-29T21:09:11+01:00", "2026-11-29T20:09:11Z"),
        ("1795982951", "2026-11-29T20:09:11Z"),
        ("-30s", "2026-11-29T20:08:51.347Z"),
        ("-0s", "2026-11-29T20:09:21.347Z"),
    ],
)
def test_moments(at: str, time: str) -> None:
    """Moments in every form; a relative one counts from the newest sample."""
    done = diagnose(SATURATED, "--at", at, "--format", "json")
    assert time.replace(".170Z", ".17Z") == document(done)["time"].replace(".170Z", ".17Z")


def test_a_relative_moment_ignores_other_series(tmp_path: Path) -> None:
    """Newer samples of other programs do not move the newest sample of vLLM."""
    text = text_of(HEALTHY).replace("# EOF\n", "node_load1 1 1799999999\n# EOF\n")
    done = diagnose(written(tmp_path, text), "--at", "-30s", "--format", "json")
    assert (0, "") == (done.returncode, done.stderr)


def test_a_moment_outside() -> None:
    """The span of the recording is told."""
    done = diagnose(SATURATED, "--at", "2026-11-30T00:00:00Z", "--format", "json")
    assert (2, "") == (done.returncode, done.stdout)
    assert "which goes from 2026-11-29T20:03:11.347Z to 2026-11-29T20:09:21.347Z" in done.stderr


def test_window() -> None:
    """--window is the window of the signals."""
    signals = document(diagnose(SATURATED, "--at", AT, "--window", "1m30s", "--format", "json"))["targets"][0][
        "signals"
    ]
    assert 90.0 == signals["kv_cache_usage"]["window_s"]


def test_serve_args() -> None:
    """What is given is the current value, with that provenance, and decides what is proposed."""
    arguments = "--max-num-seqs 64 --gpu-memory-utilization=.9 --kv-cache-dtype fp8"
    levers = first_recommendations(
        document(diagnose(SATURATED, "--at", AT, "--serve-args", arguments, "--format", "json"))
    )
    assert (64, "given", "lower") == tuple(
        levers["max_num_seqs"][key] for key in ("current", "provenance", "direction")
    )
    assert "kv_cache_dtype" not in levers


@pytest.mark.parametrize(
    "matchers",
    [["model_name=tiny-llama"], ["job=vllm", "engine=0"], ["instance=127.0.0.1:8000"]],
)
def test_matchers(matchers: list[str]) -> None:
    """Matchers that fit select the engine."""
    done = diagnose(SATURATED, "--at", AT, "--format", "json", *[part for one in matchers for part in ("--match", one)])
    assert ["tiny-llama"] == [one["target"]["model_name"] for one in document(done)["targets"]]


@pytest.mark.parametrize("output", ["text", "json"])
def test_matchers_that_select_nothing(output: str) -> None:
    """Labels that exist are listed on stderr; JSON says that nothing could be read."""
    done = diagnose(SATURATED, "--match", "model_name=tiny.llama", "--format", output)
    assert 3 == done.returncode
    assert "palanca: --match model_name=tiny.llama selects nothing; labels that exist:" in done.stderr
    assert "\n  model_name: tiny-llama\n" in done.stderr
    if output == "text":
        assert "" == done.stdout
    else:
        found = document(done)
        assert ([], "unreachable") == (found["targets"], found["source"]["state"])


def test_a_matcher_that_is_no_text() -> None:
    """Found by fuzzing: bytes of the command line that are no UTF-8 cannot be sent to a server."""
    done = diagnose(SATURATED, "--match", "model_name=\udc80")
    assert (2, "") == (done.returncode, done.stdout)
    assert "is no UTF-8 text; no label has such a value" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["text", "json", "markdown"])
def test_hostile_labels(tmp_path: Path, output: str) -> None:
    """Quotes, newlines, escape codes and wide characters in a label can be matched and never reach a terminal raw."""
    path = written(tmp_path, saturated(model_name=HOSTILE))
    done = diagnose(path, "--at", AT, "--match", f"model_name={HOSTILE}", "--format", output)
    assert (1, "") == (done.returncode, done.stderr)
    assert "\x1b" not in done.stdout
    if output == "json":
        assert [HOSTILE] == [one["target"]["model_name"] for one in document(done)["targets"]]


def test_output_that_cannot_show_a_label(tmp_path: Path) -> None:
    """A terminal that cannot show a letter gets its number instead of a traceback."""
    path = written(tmp_path, saturated(model_name="model-漢"))
    environment = {"PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = palanca("diagnose", "--recording", path, "--at", AT, environment=environment)
    assert (1, "") == (done.returncode, done.stderr)
    assert "model-\\u6f22" in done.stdout


@pytest.mark.parametrize(
    ("statuses", "fail_on", "code"),
    [
        (["ok", "idle"], "warning", 0),
        (["ok", "unknown"], "warning", 0),
        (["ok", "warning"], "warning", 1),
        (["ok", "warning"], "critical", 0),
        (["unknown", "critical"], "critical", 1),
        (["unknown", "warning"], "critical", 0),
        (["unknown", "unknown"], "warning", 3),
        ([], "warning", 3),
    ],
)
def test_exit_code_of_several_engines(statuses: list[Status], fail_on: str, code: int) -> None:
    """One bad engine is enough for 1; 3 only when none of them could be judged."""
    made = diagnosis(*(replace(unknown(), status=status) for status in statuses))
    assert code == exit_code(made, fail_on)


def test_pending_findings_do_not_count() -> None:
    """What is pending with a full history touches neither the status nor the exit code."""
    one = rule(severity="critical", **{"for": "3m"})
    signals: dict[str, Value] = {
        "kv_cache_usage": [0.9, 0.9], "up": 1.0, "running": 1.0, "waiting": 0.0, "ttft_p99": 0.1,
        "generation_tokens_per_second": 9.0,
    }  # fmt: skip
    made = diagnose_readings(catalogue(one), readings(signals))
    assert ["pending"] == [found.state for found in made.targets[0].findings]
    assert ("ok", 0) == (made.targets[0].status, exit_code(made, "warning"))


# --- recordings that are none --------------------------------------------------------------------


@pytest.mark.parametrize("output", ["text", "json"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"<html><body>502 Bad Gateway</body></html>\n", ":1: this is HTML or XML"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ":1: "),
        (b"vllm:num_requests_running 1 2\nvllm:num_requests_running 1 1\n# EOF\n", ":2: "),
        (b"vllm:num_requests_running 1\n# EOF\n", ":1: "),
        (b"vllm:num_requests_running 1 1\n", "no '# EOF' at the end"),
        (gzip.compress(b"vllm:num_requests_running 1 1\n# EOF\n")[:-9], "the gzip file is cut off"),
        (b"\x1f\x8b" + b"x" * 100, "the gzip file is damaged"),
        (SATURATED.read_bytes()[:50_000], "the gzip file is cut off"),
        (SATURATED.read_bytes()[:50_000] + b"\0" * 99 + SATURATED.read_bytes()[50_099:], "run.om:"),
    ],
    ids=[
        "empty",
        "html",
        "binary",
        "unsorted",
        "untimed",
        "cut",
        "gzip cut",
        "gzip damaged",
        "cut early",
        "overwritten",
    ],
)
def test_damaged_recordings(tmp_path: Path, data: bytes, message: str, output: str) -> None:
    """A damaged recording is a usage error with its place and no output."""
    path = written(tmp_path, data)
    done = diagnose(path, "--format", output)
    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith(f"palanca: {path}")
    assert message in done.stderr


@pytest.mark.parametrize("at", [[], ["--at", "-5m"]])
def test_missing_recording(tmp_path: Path, at: list[str]) -> None:
    """A recording that is not there is named."""
    done = diagnose(tmp_path / "none.om", *at)
    assert (2, f"palanca: {tmp_path}/none.om: no such file (check the path)\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize("at", [[], ["--at", "-5m"], ["--at", "5"]])
@pytest.mark.parametrize("text", ["# EOF\n", 'up{job="x",instance="y"} 1 5\nnode_load1 3 5\n# EOF\n'])
def test_without_vllm_series(tmp_path: Path, at: list[str], text: str) -> None:
    """Without vLLM series nothing can be judged: exit 3, a message, and JSON all the same."""
    path = written(tmp_path, text)
    done = diagnose(path, "--format", "json", *at)
    assert 3 == done.returncode
    assert done.stderr.startswith(f"palanca: {path}: has no vLLM series (looked for vllm:*")
    found = document(done)
    assert ([], "unreachable", str(path)) == (found["targets"], found["source"]["state"], found["source"]["url"])


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-5", "1e308", "0"])
def test_strange_gauges(tmp_path: Path, value: str) -> None:
    """NaN, infinities and negative numbers in gauges give a document without NaN, in all formats."""
    changes = dict.fromkeys(("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"), value)
    path = written(tmp_path, saturated(**changes))
    done = diagnose(path, "--at", AT, "--format", "json")
    assert done.returncode in {0, 1, 3}
    assert 1 == len(document(done)["targets"])
    assert "" == done.stderr
    assert done.returncode == diagnose(path, "--at", AT).returncode


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-5"])
def test_strange_counters(tmp_path: Path, value: str) -> None:
    """The same in counters and sums of histograms."""
    names = ("num_preemptions_total", "iteration_tokens_total_sum", "generation_tokens_total",
             "request_prompt_tokens_sum", "time_to_first_token_seconds_bucket")  # fmt: skip
    done = diagnose(written(tmp_path, saturated(**dict.fromkeys(names, value))), "--at", AT, "--format", "json")
    assert done.returncode in {0, 1, 3}
    assert "" == done.stderr
    document(done)


# --- pipes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["diagnose", "--recording", HEALTHY], 0),
        (["diagnose", "--recording", SATURATED, "--at", AT, "--format", "json"], 1),
        (["rules", "list"], 0),
        (["--version"], 0),
    ],
)
def test_closed_pipe(arguments: list[str | Path], code: int) -> None:
    """A reader that has gone, as with ``| head``, is no error and does not change the exit code."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = palanca(*arguments, stdout=writer)
    finally:
        os.close(writer)
    assert (code, "") == (done.returncode, done.stderr)


# --- rules ---------------------------------------------------------------------------------------


def test_rules_list() -> None:
    """Each rule stands on a line with area, id, severity, cause and title."""
    done = palanca("rules", "list")
    lines = done.stdout.splitlines()
    assert (0, "") == (done.returncode, done.stderr)
    assert len(list((ROOT / "rules" / "matrix").rglob("*.yaml"))) == len(lines)
    assert sorted(lines) == lines
    title = "KV cache is full and requests are being preempted"
    assert ["kv-cache", "kv-cache-saturated", "critical", "kv-capacity", title] in [
        line.split(None, 4) for line in lines
    ]


def test_rules_show() -> None:
    """A rule is shown as it is written."""
    done = palanca("rules", "show", "kv-cache-saturated")
    assert 0 == done.returncode
    assert done.stdout.startswith(RULE.rstrip())


def overlay(folder: Path, old: str = "", new: str = "", rule: str = "kv-cache-saturated") -> Path:
    """A folder of rules with one that replaces a shipped rule, changed once."""
    assert not old or 1 == RULE.count(old)
    path = folder / "matrix" / "kv-cache" / f"{rule}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RULE.replace(old, new) if old else RULE, encoding="utf-8")
    return folder


def test_overlay(tmp_path: Path) -> None:
    """A rule of the overlay replaces the shipped one in every command."""
    folder = overlay(tmp_path, "severity: critical", "severity: info")
    listed = palanca("rules", "list", "--rules", folder).stdout
    assert "kv-cache-saturated       info" in listed
    assert "severity: info" in palanca("rules", "show", "kv-cache-saturated", "--rules", folder).stdout
    assert 0 == palanca("rules", "check", "--rules", folder).returncode
    found = document(diagnose(SATURATED, "--at", AT, "--rules", folder, "--format", "json"))
    assert "info" == next(
        one["severity"] for one in found["targets"][0]["findings"] if one["rule"] == "kv-cache-saturated"
    )


@pytest.mark.parametrize(
    "command",
    [["rules", "check"], ["rules", "list"], ["rules", "test", "x"], ["diagnose", "--recording", SATURATED]],
)
def test_broken_overlay(tmp_path: Path, command: list[str | Path]) -> None:
    """A fault in the overlay is told with file, line and column, whatever was asked."""
    old = "when: kv_cache_usage > full"
    folder = overlay(tmp_path, old, "when: kv_cache_usag > full")
    line = RULE[: RULE.index(old)].count("\n") + 1
    done = palanca(*command, "--rules", folder)
    assert (2, "") == (done.returncode, done.stdout)
    place = f"{folder}/matrix/kv-cache/kv-cache-saturated.yaml:{line}:7"
    assert f"palanca: {place}: unknown name 'kv_cache_usag' (did you mean kv_cache_usage" in done.stderr


def test_overlay_that_is_no_yaml(tmp_path: Path) -> None:
    """Text that is no YAML has a place too."""
    folder = overlay(tmp_path, "severity: critical", "severity: [critical")
    done = palanca("rules", "check", "--rules", folder)
    assert 2 == done.returncode
    assert re.match(rf"palanca: {re.escape(str(folder))}/.*\.yaml:\d+:\d+: not YAML: ", done.stderr)


CASES = """\
rule: kv-cache-saturated
cases:
  - name: nothing is known
    signals: {}
    expect: {state: STATE}
"""


def test_rules_test(tmp_path: Path) -> None:
    """Cases are run from files and folders; a failed one is told with its place and exit code 1."""
    good = written(tmp_path, CASES.replace("STATE", "unknown"), "good.yaml")
    done = palanca("rules", "test", good)
    assert (0, "1 cases of 1 files: 0 failed\n", "") == (done.returncode, done.stdout, done.stderr)
    bad = written(tmp_path, CASES.replace("STATE", "firing"), "bad.yaml")
    done = palanca("rules", "test", tmp_path)
    assert (1, "2 cases of 2 files: 1 failed\n") == (done.returncode, done.stdout)
    assert f"{bad}:3:5: kv-cache-saturated: nothing is known: expected firing, is unknown\n" == done.stderr


def test_rules_test_without_cases(tmp_path: Path) -> None:
    """A folder without cases, and the default one where it is not, are usage errors."""
    done = palanca("rules", "test", tmp_path)
    assert (2, "") == (done.returncode, done.stdout)
    assert "no case files found" in done.stderr
    done = palanca("rules", "test", cwd=tmp_path)
    assert 2 == done.returncode
    assert "tests/rules does not exist" in done.stderr


def test_runs_far_from_the_checkout(tmp_path: Path) -> None:
    """Paths are relative to where the program is run, rules are found from anywhere."""
    shutil.copy(HEALTHY, tmp_path / "x.om.gz")
    assert 0 == palanca("diagnose", "--recording", "x.om.gz", cwd=tmp_path).returncode


@pytest.mark.parametrize("command", ["verify", "backtest"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "nothing to read"),
        (("http://127.0.0.1:9", "--prometheus", "http://127.0.0.1:9"), "several sources"),
        (("--prometheus", "http://127.0.0.1:9", "--recording", str(HEALTHY)), "several sources"),
    ],
)
def test_one_source_with_a_past(command: str, given: tuple[str, ...], said: str) -> None:
    """Nothing that was given is silently left out, and what has no past is not offered."""
    done = palanca(command, *given)
    assert (2, True, False) == (done.returncode, said in done.stderr, "--scrape" in done.stderr)


@pytest.mark.parametrize("command", [("rules", "list"), ("--help",), ("diagnose", "--recording", str(SATURATED))])
def test_a_full_disk(command: tuple[str, ...]) -> None:
    """Output that cannot be written is an error of its own and not "findings"."""
    with Path("/dev/full").open("wb") as full:
        done = palanca(*command, stdout=full.fileno())
    assert (2, True) == (done.returncode, "standard output cannot be written" in done.stderr)


def test_match_of_a_name_that_is_no_label() -> None:
    """It would select nothing or everything, silently."""
    done = diagnose(HEALTHY, "--match", "__name__=vllm:num_requests_running")
    assert (2, True) == (done.returncode, "no target has such a label" in done.stderr)


def test_a_hang_is_not_told_from_half_a_minute(tmp_path: Path) -> None:
    """One long prefill looks the same for a while; the finding is shown and alarms nobody."""
    text = gzip.decompress(SATURATED.read_bytes()).decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    busy = [line.split() for line in lines if line.startswith("vllm:num_requests_running{")]
    last = max(float(time) for *_, value, time in busy if float(value) > 0)
    still = [line for line in lines if float(line.rsplit(" ", 1)[1]) == last]
    frozen = [f"{line.rsplit(' ', 1)[0]} {last + 15 * step}" for step in range(3) for line in still]
    ordered = [
        line
        for name in sorted({line.split("{")[0] for line in frozen})
        for line in frozen
        if line.split("{")[0] == name
    ]
    path = tmp_path / "frozen.om"
    path.write_text("\n".join([*ordered, "# EOF\n"]), encoding="utf-8")
    made = document(diagnose(path, "--format", "json"))
    severities = {one["rule"]: one["severity"] for target in made["targets"] for one in target["findings"]}
    assert "info" == severities["engine-hung"]
    assert "critical" not in severities.values()
