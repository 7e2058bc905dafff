"""What the settings say about the exported alerts."""

from __future__ import annotations

from pathlib import Path

from tests.settings.files import written

from palanca.alerting.options import Options, Override
from palanca.settings import load_settings
from palanca.settings.alerts import with_settings

TEXT = """
external_url: https://p.example/x
thresholds:
  - {match: {model_name: a}, rules: {kv-cache-saturated: {full: 0.9}}}
  - {rules: {ttft-high: {enough: 5}}}
targets:
  - {match: {model_name: a}, slo: {ttft_p99: 2.0}, gpu: h100-sxm}
  - {match: {model_name: b}, gpu: h100-sxm}
"""


def test_thresholds_objectives_and_url(tmp_path: Path) -> None:
    """In the order of the file; targets without objectives say nothing."""
    made = with_settings(Options(), load_settings(written(tmp_path, TEXT), {}))
    assert "https://p.example/x" == made.external_url
    assert (
        Override({"model_name": "a"}, {"kv-cache-saturated": {"full": 0.9}}),
        Override({}, {"ttft-high": {"enough": 5.0}}),
        Override({"model_name": "a"}, slo={"ttft_p99": 2.0}),
    ) == made.overrides


def test_options_go_first(tmp_path: Path) -> None:
    """A URL of the command line stays; nothing said is nothing changed."""
    options = Options(external_url="https://other.example")
    assert "https://other.example" == with_settings(options, load_settings(written(tmp_path, TEXT), {})).external_url
    assert options == with_settings(options, load_settings(None, {}))
