"""``palanca config`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.engines import RECORDINGS, ROOT
from tests.settings.files import secret, written
from tests.test_cli import AT, document, palanca

SATURATED = RECORDINGS / "kv-saturated.om.gz"


def test_check(tmp_path: Path) -> None:
    """No faults: exit status 0, warnings on stderr."""
    secret(tmp_path, "t", mode=0o644)
    path = written(tmp_path, "auth: {tokens: [{name: a, token_file: t}]}\nsources: [{name: a, prometheus: http://p}]")
    done = palanca("config", "check", path)
    assert (0, f"{path}: no faults (1 source, 1 token)\n") == (done.returncode, done.stdout)
    assert done.stderr.startswith(f"warning: {tmp_path}/t can be read by everybody")


def test_check_tells_all_faults(tmp_path: Path) -> None:
    """Exit status 2, one line a fault."""
    path = written(tmp_path, "interval: 1s\nlistn: 1\nauth: {tokens: [{name: a, token_file: none}]}\n")
    done = palanca("config", "check", path, environment={"PALANCA_FOO": "1"})
    assert (2, "") == (done.returncode, done.stdout)
    assert 4 == len(done.stderr.splitlines())


def test_check_needs_a_file(tmp_path: Path) -> None:
    """An argument, or PALANCA_CONFIG."""
    done = palanca("config", "check")
    assert (2, "palanca: no settings file; palanca config check FILE\n") == (done.returncode, done.stderr)
    path = written(tmp_path, "{}")
    assert 0 == palanca("config", "check", environment={"PALANCA_CONFIG": str(path)}).returncode


def test_show(tmp_path: Path) -> None:
    """Flags, variables and the file, with origins."""
    path = written(tmp_path, "interval: 10s\nlisten: {host: 10.0.0.1}\n")
    done = palanca(
        "config", "show", "--config", path, "--port", "80", "--no-auth", "--rules", "mine", "--database", "x.db",
        "--external-url", "https://x", "--log-level", "debug", "--prometheus", "eu=https://eu/p",
        "--prometheus", "http://us:9090", "--prometheus", "http://us:9091", "--scrape", "http://v:8000",
        "--header", "X-Org: hunter2", "--bearer-file", "b", "--timeout", "5s", "--insecure",
        environment={"PALANCA_LOG__FORMAT": "json"},
    )  # fmt: skip
    made = yaml.safe_load(done.stdout)

    assert (0, "") == (done.returncode, done.stderr)
    assert ("10s", "https://x", "mine", {"format": "json", "level": "debug"}) == (
        made["interval"], made["external_url"], made["rules"], made["log"],
    )  # fmt: skip
    assert {"host": "10.0.0.1", "port": 80, "tls": None} == made["listen"]
    assert [("eu", "eu"), ("us", "us"), ("us-2", "us-2"), ("scrape", "scrape")] == [
        (one["name"], one["labels"]["cluster"]) for one in made["sources"]
    ]
    way = {"bearer_file": "b", "headers": {"X-Org": "<hidden>"}, "timeout": "5s", "insecure": True}
    assert all(way == {key: one[key] for key in way} for one in made["sources"])
    assert "# --prometheus and --scrape" in done.stdout
    assert f"# {path}:1\n" in done.stdout
    assert "hunter2" not in done.stdout


def test_show_schema() -> None:
    """The schema, and the table."""
    assert "properties" in json.loads(palanca("config", "schema").stdout)
    assert palanca("config", "schema", "--format", "markdown").stdout.startswith("| key | default | meaning |\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bearer-file", "x"), "--bearer-file without a source; it belongs to --prometheus or --scrape"),
        (("--header", "a:b"), "--header without a source"),
        (("--insecure",), "--insecure without a source"),
        (("--prometheus", "http://p", "--header", "x"), "--header 'x' is not NAME:VALUE"),
        (("--prometheus", "p:9090"), "--prometheus: sources[0].prometheus: this is no HTTP URL"),
        (("--prometheus", "a=http://p", "--prometheus", "a=http://q"), "'a' is already the name of another"),
        (("--scrape", "v"), "--scrape: sources[0].scrape[0]: this is no HTTP URL"),
        (("--interval", "1"), "--interval: interval: must be between 5s and 1h"),
        (("--port", "70000"), "--port: listen.port: Input should be less than or equal to 65535"),
        (("--host", ""), "--host: listen.host: must be text"),
        (("--log-format", "xml"), "--log-format: log.format: 'xml' is not one of 'console' or 'json'"),
        (("--config", "none.yaml"), "none.yaml: cannot be read: No such file or directory"),
    ],
)
def test_faulty_flags(arguments: tuple[str, ...], message: str) -> None:
    """Told by the name of the flag."""
    done = palanca("config", "show", *arguments)
    assert (2, "") == (done.returncode, done.stdout)
    assert message in done.stderr


@pytest.mark.parametrize(("full", "found"), [("0.7", True), ("0.999", False)])
def test_diagnose_with_thresholds(tmp_path: Path, full: str, found: bool) -> None:
    """The threshold of the settings decides."""
    path = written(tmp_path, f"thresholds: [{{rules: {{kv-cache-saturated: {{full: {full}}}}}}}]\nlisten: {{port: 1}}")
    done = palanca("diagnose", "--recording", SATURATED, "--at", AT, "--config", path, "--format", "json")
    findings = {one["rule"]: one for one in document(done)["targets"][0]["findings"]}
    assert found == ("kv-cache-saturated" in findings)
    if found:
        assert 0.7 == findings["kv-cache-saturated"]["evidence"][0]["threshold"]


def test_backtest_with_thresholds(tmp_path: Path) -> None:
    """A range is judged by the same thresholds as a moment."""
    path = written(tmp_path, "thresholds: [{rules: {kv-cache-saturated: {full: 0.999}}}]")
    run = ("backtest", "--recording", SATURATED, "--step", "1m")

    def rules(*arguments: str | Path) -> set[str]:
        lines = [json.loads(line) for line in palanca(*run, *arguments).stdout.splitlines()]
        return {line["rule"] for line in lines if line["schema"] == "palanca.episode/v1"}

    assert "kv-cache-saturated" in rules()
    assert "kv-cache-saturated" not in rules("--config", path)


def test_the_overlay_of_the_settings(tmp_path: Path) -> None:
    """Diagnose takes the rules that the file names."""
    text = (ROOT / "rules" / "matrix" / "kv-cache" / "kv-cache-saturated.yaml").read_text(encoding="utf-8")
    written(tmp_path, text.replace("id: kv-cache-saturated", "id: my-rule"), "mine/my-rule.yaml")
    path = written(tmp_path, "rules: mine\nthresholds: [{rules: {my-rule: {full: 0.5}}}]")
    done = palanca("diagnose", "--recording", SATURATED, "--at", AT, "--config", path, "--format", "json")
    assert "my-rule" in {one["rule"] for one in document(done)["targets"][0]["findings"]}
