"""The effective settings as YAML, with origins."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.engines import ROOT
from tests.settings.files import loaded, settings

from palanca.settings import Flag, load, show

TEXT = """\
interval: 90s
sources:
  - name: eu
    prometheus: https://me:hunter2@p
    headers: {X-Org: hunter2}
    bearer_file: secret
  - {name: us, scrape: [http://a, http://b], match: {job: vllm}}
thresholds:
  - rules: {kv-cache-saturated: {full: 0.9}}
"""


def lines(text: str) -> dict[str, str]:
    """Origin of each line, by the line without it."""
    return {one.partition("  # ")[0].strip(): one.partition("  # ")[2] for one in text.splitlines()}


def test_origins(tmp_path: Path) -> None:
    """Each value has its own."""
    made = loaded(
        tmp_path, TEXT.replace("https://me:hunter2@p", "http://p"), {"PALANCA_SOURCES__1__TIMEOUT": "12"},
        Flag("--port", ("listen", "port"), 1),
    )  # fmt: skip
    found = {line: origin.replace(f"{tmp_path}/", "") for line, origin in lines(show(made)).items()}
    expected = {
        "interval: 1m30s": "palanca.yaml:1",
        "external_url: null": "default",
        "port: 1": "--port",
        "host: 127.0.0.1": "default",
        "- name: eu": "palanca.yaml:3",
        "timeout: 12s": "PALANCA_SOURCES__1__TIMEOUT",
        "timeout: 30s": "default",
        "cluster: us": "default",
        "job: vllm": "palanca.yaml:7",
        "full: 0.9": "palanca.yaml:9",
        "retention: 90d": "default",
    }
    assert expected == {line: found[line] for line in expected}


def test_nothing_secret(tmp_path: Path) -> None:
    """Names of files only, no credentials of URLs, no values of headers."""
    text = show(loaded(tmp_path, TEXT.replace("    bearer_file: secret\n", "")))
    assert "hunter2" not in text
    assert "prometheus: https://p " in text
    assert "X-Org: <hidden>" in text


def test_it_is_a_settings_file_again(tmp_path: Path) -> None:
    """What is shown reads as the same settings, but for the values of headers."""
    for text in ((ROOT / "examples" / "palanca.yaml").read_text(encoding="utf-8"), "{}", "rules: 'a: b # c'\n"):
        made = loaded(tmp_path, text.replace("headers: {X-Scope-OrgID: inference}", "insecure: true"))
        again = settings(tmp_path / "other", show(made).replace("headers:", "headers:"))
        assert made.settings == again


def test_defaults() -> None:
    """Without anything all keys are shown."""
    document = yaml.safe_load(show(load(None, {})))
    assert {"interval", "external_url", "listen", "auth", "sources", "alertmanager", "history", "notify", "log",
            "rules", "thresholds", "targets"} == set(document)  # fmt: skip
    assert {"host": "127.0.0.1", "port": 9797, "tls": None} == document["listen"]
