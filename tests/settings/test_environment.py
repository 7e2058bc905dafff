"""Environment variables of palanca."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.settings.files import loaded

from palanca.errors import RuleFileError
from palanca.settings import load, load_settings
from palanca.settings.environment import known_names

SOURCES = '[{"name": "eu", "prometheus": "http://p:9090", "labels": {"cluster": "EU-1"}}]'


def test_lists_and_mappings_are_json() -> None:
    """Values keep their case."""
    (source,) = load_settings(None, {"PALANCA_SOURCES": SOURCES}).sources
    assert ("eu", {"cluster": "EU-1"}) == (source.name, source.labels)


def test_case_of_the_name_does_not_matter() -> None:
    """As Windows has it."""
    assert 1 == load_settings(None, {"palanca_listen__port": "1"}).listen.port


def test_mappings_are_merged_and_lists_replaced(tmp_path: Path) -> None:
    """A variable for a section leaves what it does not say."""
    text = "listen: {host: a, port: 1}\nsources: [{name: x, prometheus: http://x}, {name: y, prometheus: http://y}]"
    made = loaded(tmp_path, text, {"PALANCA_LISTEN": '{"port": 2}', "PALANCA_SOURCES": SOURCES})
    assert ("a", 2) == (made.settings.listen.host, made.settings.listen.port)
    assert ["eu"] == [one.name for one in made.settings.sources]
    assert "PALANCA_SOURCES" == str(made.origin("sources", 0, "labels", "cluster"))


def test_a_number_reaches_into_a_list(tmp_path: Path) -> None:
    """An element is changed, or one is added behind the last; lists in it are JSON again."""
    text = "sources: [{name: x, prometheus: http://x}]"
    environ = {
        "PALANCA_SOURCES__0__TIMEOUT": "10s",
        "PALANCA_SOURCES__1__NAME": "y",
        "PALANCA_SOURCES__1__SCRAPE": '["http://v"]',
    }
    made = loaded(tmp_path, text, environ)
    first, second = made.settings.sources
    assert ("x", 10.0) == (first.name, first.timeout)
    assert ("y", "http://v") == (second.name, str(second.scrape[0]))
    assert "PALANCA_SOURCES__0__TIMEOUT" == str(made.origin("sources", 0, "timeout"))
    assert "PALANCA_SOURCES__1__NAME" == str(made.origin("sources", 1, "name"))


def test_without_a_file_a_list_begins_at_0() -> None:
    """The variables alone make a source."""
    environ = {"PALANCA_SOURCES__0__NAME": "a", "PALANCA_SOURCES__0__PROMETHEUS": "http://p"}
    assert ["a"] == [one.name for one in load_settings(None, environ).sources]


@pytest.mark.parametrize(
    "environ",
    [
        {"PALANCA_LISTEN__HOST": ""},
        {"PALANCA_CONFIG": "a.yaml"},
        {"PATH": "x", "PALANCAX": "y"},
        {
            "PALANCA_PORT": "tcp://10.0.0.1:9797",
            "PALANCA_SERVICE_HOST": "10.0.0.1",
            "PALANCA_SERVICE_PORT": "9797",
            "PALANCA_SERVICE_PORT_HTTP": "9797",
            "PALANCA_PORT_9797_TCP": "tcp://10.0.0.1:9797",
            "PALANCA_PORT_9797_TCP_PROTO": "tcp",
            "PALANCA_PORT_9797_TCP_ADDR": "10.0.0.1",
            "PALANCA_PROMETHEUS_SERVICE_HOST": "10.0.0.2",
            "PALANCA_PROMETHEUS_PORT": "tcp://10.0.0.2:9090",
        },
    ],
)
def test_variables_that_are_no_settings(environ: Mapping[str, str]) -> None:
    """Empty ones, those of others, and those that Kubernetes makes up for services."""
    assert load_settings(None, {}) == load_settings(None, environ)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PALANCA_INTERVALL", "1m", "there is no such setting (did you mean PALANCA_INTERVAL?)"),
        ("PALANCA_PORT", "1", "there is no such setting (did you mean PALANCA_LISTEN__PORT?)"),
        ("PALANCA_LISTEN_PORT", "1", "did you mean PALANCA_LISTEN__PORT"),
        ("PALANCA_XYZ", "1", "palanca config schema lists the settings"),
        ("PALANCA_INTERVAL__X", "1", "there is no such setting"),
        ("PALANCA_SOURCES", "http://p", "not JSON: Expecting value"),
        ("PALANCA_SOURCES", '{"a": 1}', "sources: Input should be a valid tuple"),
        ("PALANCA_LISTEN", "7", "listen: Input should be a valid dictionary"),
        ("PALANCA_LISTEN", "x", "not JSON"),
        ("PALANCA_SOURCES__3__NAME", "x", "sources has no element 3 (the next one is 0)"),
        ("PALANCA_SOURCES__99999999999__NAME", "x", "sources has no element"),
        ("PALANCA_SOURCES__0__NAMES", "x", "sources[0].names: unknown key 'names' (did you mean name?)"),
        ("PALANCA_SOURCES__0__SCRAPE", "[x", "sources[0].scrape: Input should be a valid tuple"),
        ("PALANCA_SOURCES__0", "x", "sources[0]: Input should be a valid dictionary"),
        ("PALANCA_LISTEN__PORT", "http", "listen.port: Input should be a valid integer"),
        ("PALANCA_AUTH__DISABLED", "maybe", "auth.disabled: Input should be a valid boolean"),
        ("PALANCA_HISTORY__DATABASE", "mysql://u:secret@h/d", "history.database: palanca keeps its history in"),
    ],
)  # fmt: skip
def test_faults_name_the_variable(name: str, value: str, message: str) -> None:
    """And never show a secret."""
    with pytest.raises(RuleFileError) as caught:
        load(None, {name: value})
    text = str(caught.value)
    assert any(line.startswith(f"{name}: ") and message in line for line in text.splitlines()), text
    assert "secret@" not in text


@pytest.mark.parametrize("name", known_names())
def test_every_setting_has_a_variable(name: str) -> None:
    """All names that hints give are known."""
    with pytest.raises(RuleFileError) as caught:
        load(None, {name: "\x00"})
    assert "no such setting" not in str(caught.value)
