"""Whatever stands in a file or a variable, there are settings or faults, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.settings.files import written

from palanca.settings import changed, examine, show
from palanca.settings.checkup import check_all
from palanca.settings.environment import known_names
from palanca.settings.schema import reference
from palanca.settings.spec import Settings

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KEYS = sorted({part.removesuffix("[]") for key, _, _ in reference(Settings) for part in key.split(".")})
WORDS = st.sampled_from(
    ["a", "0s", "30s", "http://a", "https://u:p@h/x", "/none", "postgresql://u:p@h/d", "kv-leak", ""]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=8) | st.dates()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | WORDS, inner, max_size=4),
    max_leaves=12,
)
SOURCES = st.fixed_dictionaries({"name": WORDS, "prometheus": WORDS}, optional={"labels": VALUES, "headers": VALUES})
FILES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6) | st.fixed_dictionaries(
    {},
    optional={
        "sources": st.lists(SOURCES | VALUES, max_size=3),
        "thresholds": st.lists(st.fixed_dictionaries({"rules": VALUES}), max_size=3),
        "targets": st.lists(st.fixed_dictionaries({"match": VALUES}, optional={"slo": VALUES, "gpu": LEAVES})),
        "listen": VALUES,
        "auth": st.fixed_dictionaries({"tokens": VALUES}) | VALUES,
    },
)  # fmt: skip
VARIABLES = st.dictionaries(
    st.sampled_from(known_names())
    | st.builds("PALANCA_{}__{}__{}".format, st.sampled_from(["SOURCES", "TARGETS"]), WORDS | st.integers(0, 2), WORDS),
    st.text(st.characters(exclude_characters="\x00"), max_size=8) | WORDS | st.just('[{"name": "a"}]') | st.just("{}"),
    max_size=4,
)


@EXAMPLES
@given(data=FILES, environ=VARIABLES)
def test_structured_files(tmp_path: Path, data: object, environ: dict[str, str]) -> None:
    """Keys that exist with values that do not fit, and what is sound in between is shown."""
    made = examine(written(tmp_path, yaml.safe_dump(data, allow_unicode=False)), environ)
    for fault in check_all(made).faults:
        assert fault.message
    assert isinstance(yaml.safe_load(show(made)), dict)
    assert () == changed(made.settings, made.settings)
    assert "u:p@" not in repr(made.settings) + show(made)


@EXAMPLES
@given(text=st.text(max_size=60) | st.text(alphabet="ab:-[]{}'\"\n #&*!|>,0.", max_size=60))
def test_any_text(tmp_path: Path, text: str) -> None:
    """What is no YAML, and what is YAML by accident."""
    path = tmp_path / "palanca.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    made = examine(path, {})
    assert made.faults or Settings() == made.settings
