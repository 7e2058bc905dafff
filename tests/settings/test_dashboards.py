"""What the settings say about the dashboards."""

from __future__ import annotations

from pathlib import Path

from tests.settings.files import written

from palanca.alerting.options import Override
from palanca.dashboards.options import Options
from palanca.settings import load
from palanca.settings.dashboards import with_settings

SETTINGS = (
    "external_url: https://p.example\n"
    "thresholds: [{match: {}, rules: {kv-cache-saturated: {full: 0.91}}}]\n"
    "targets: [{match: {model_name: b}, slo: {ttft_p99: 2.5}}]\n"
)


def test_they_are_added(tmp_path: Path) -> None:
    """Thresholds, objectives and the address, as for alerts; nothing else changes."""
    settings = load(written(tmp_path, SETTINGS), {}).settings
    made = with_settings(Options(recorded=True, prefixes=("vllm:",)), settings)
    assert (True, ("vllm:",)) == (made.recorded, made.prefixes)
    assert (
        Override({}, thresholds={"kv-cache-saturated": {"full": 0.91}}),
        Override({"model_name": "b"}, slo={"ttft_p99": 2.5}),
    ) == made.overrides
    assert "https://p.example" == str(made.external_url).rstrip("/")


def test_an_address_that_was_given_stays(tmp_path: Path) -> None:
    """The command line is nearer."""
    settings = load(written(tmp_path, SETTINGS), {}).settings
    assert "https://x.example" == with_settings(Options(external_url="https://x.example"), settings).external_url
