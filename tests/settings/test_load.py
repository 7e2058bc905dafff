"""One file, the environment and flags: what holds, where it comes from, and every fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines import ROOT
from tests.settings.files import faults, loaded, settings, written

from palanca.errors import RuleFileError
from palanca.settings import Flag, Settings, examine, load_settings, settings_file

PORT = ("listen", "port")
TWO = """
sources:
  - {name: eu, prometheus: http://eu:9090}
  - {name: us, scrape: [http://a:8000, http://b:8000/]}
"""


def test_everything_has_a_default() -> None:
    """Without a file, variables and flags the settings are those of the documentation."""
    made = load_settings(None, {})
    assert Settings() == made
    assert ("127.0.0.1", 9797, 30.0, 90 * 86400.0) == (
        made.listen.host, made.listen.port, made.interval, made.history.retention,
    )  # fmt: skip


def test_precedence(tmp_path: Path) -> None:
    """Flags > environment > file > defaults, value by value."""
    text = "listen: {host: a, port: 1}\ninterval: 10s\n"
    environ = {"PALANCA_LISTEN__PORT": "2", "PALANCA_INTERVAL": "20s", "PALANCA_LOG__LEVEL": "debug"}
    made = loaded(tmp_path, text, environ, Flag("--interval", ("interval",), "1m"), Flag("--port", PORT, None))

    assert ("a", 2, 60.0, "debug", "console") == (
        made.settings.listen.host, made.settings.listen.port, made.settings.interval,
        made.settings.log.level, made.settings.log.format,
    )  # fmt: skip
    assert [f"{tmp_path}/palanca.yaml:1", "PALANCA_LISTEN__PORT", "--interval", "PALANCA_LOG__LEVEL", "default"] == [
        str(made.origin(*keys))
        for keys in (("listen", "host"), PORT, ("interval",), ("log", "level"), ("log", "format"))
    ]


def test_a_key_alone_says_nothing(tmp_path: Path) -> None:
    """A section whose lines are all commented out is at its defaults."""
    assert Settings() == settings(tmp_path, "targets:\n  # - match: {a: b}\nlisten:\n")


def test_paths_count_from_their_origin(tmp_path: Path) -> None:
    """Relative to the file, where the file names them, and as they are from variables and flags."""
    text = """
rules: overlay
auth: {tokens: [{name: a, token_file: /abs/a}, {name: b, token_file: secrets/b}]}
history: {database: palanca.db}
sources: [{name: s, prometheus: http://p, header_files: {X-Key: key}}]
targets: [{match: {a: b}, model_config: m/config.json}]
"""
    made = loaded(tmp_path / "etc", text, {}, Flag("--rules", ("rules",), "mine")).settings
    here = tmp_path / "etc"
    database = made.history.database

    assert Path("mine") == made.rules
    assert [Path("/abs/a"), here / "secrets/b"] == [one.token_file for one in made.auth.tokens]
    assert database is not None
    assert here / "palanca.db" == database.path
    assert str(here / "palanca.db") == str(database)
    assert {"X-Key": here / "key"} == made.sources[0].header_files
    assert here / "m/config.json" == made.targets[0].config


def test_several_sources_get_a_cluster(tmp_path: Path) -> None:
    """By default their names tell them apart; labels of their own stay."""
    assert [{"cluster": "eu"}, {"cluster": "us"}] == [one.labels for one in settings(tmp_path, TWO).sources]
    one = "sources: [{name: eu, prometheus: http://eu:9090}]"
    assert {} == settings(tmp_path, one).sources[0].labels
    own = TWO.replace("http://eu:9090}", "http://eu:9090, labels: {region: eu}}")
    assert [{"region": "eu"}, {"cluster": "us"}] == [one.labels for one in settings(tmp_path, own).sources]


def test_addresses(tmp_path: Path) -> None:
    """A source has one Prometheus or several servers; the slash at the end is dropped."""
    eu, us = settings(tmp_path, TWO).sources
    assert ["http://eu:9090"] == [str(one) for one in eu.addresses]
    assert ["http://a:8000", "http://b:8000"] == [str(one) for one in us.addresses]


def test_credentials_in_a_url_are_kept_and_not_shown(tmp_path: Path) -> None:
    """They are sent, but stand in no text of the settings."""
    text = "sources: [{name: a, prometheus: 'https://me:hunter2@p:9090/x', headers: {X-Key: hunter2}}]\n"
    text += "history: {database: 'postgresql://me:hunter2@[::1]:5432/palanca?password=hunter2'}\n"
    made = settings(tmp_path, text)
    address, database = made.sources[0].addresses[0], made.history.database

    assert "https://p:9090/x" == str(address)
    assert "https://me:hunter2@p:9090/x" == address.full.get_secret_value()
    assert address.has_credentials
    assert database is not None
    assert database.url is not None
    assert "postgresql://[::1]:5432/palanca" == str(database)
    assert database.url.get_secret_value().startswith("postgresql://me:hunter2@")
    assert "hunter2" not in repr(made) + str(made)


def test_settings_are_frozen() -> None:
    """Nobody changes them while the service runs."""
    with pytest.raises(ValueError, match="frozen"):
        setattr(Settings(), "interval", 1.0)  # noqa: B010  mypy knows it as well


def test_which_file(tmp_path: Path) -> None:
    """The option goes before the variable."""
    assert settings_file(None, {}) is None
    assert settings_file(None, {"PALANCA_CONFIG": " "}) is None
    assert Path("a") == settings_file(None, {"PALANCA_CONFIG": "a"})
    assert tmp_path == settings_file(tmp_path, {"PALANCA_CONFIG": "a"})


def test_the_example_loads() -> None:
    """``examples/palanca.yaml`` has no fault."""
    made = load_settings(ROOT / "examples" / "palanca.yaml", {})
    assert ["eu", "us", "lab"] == [one.name for one in made.sources]


# --- faults ----------------------------------------------------------------------------------------


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Those of the file with their places, those of variables and flags by their names."""
    text = """\
interval: 1s
listn: {}
listen: {hots: a}
sources:
  - {name: a, prometheus: http://a}
  - {name: b}
  - {name: a, scrape: [http://b]}
"""
    environ = {"PALANCA_LISTEN__HOTS": "x", "PALANCA_LOG__LEVEL": "loud", "PALANCA_PORT": "1"}
    expected = [
        "palanca.yaml:1:11: must be between 5s and 1h",
        "palanca.yaml:2:1: unknown key 'listn' (did you mean listen?)",
        "palanca.yaml:6:5: a source has either prometheus: URL or scrape: [URL, ...]",
        "palanca.yaml:7:12: 'a' is already the name of another (palanca.yaml:5) (choose another)",
        "PALANCA_LISTEN__HOTS: listen.hots: unknown key 'hots' (did you mean host?)",
        "PALANCA_LOG__LEVEL: log.level: 'loud' is not one of 'debug', 'info', 'warning' or 'error'",
        "PALANCA_PORT: there is no such setting (did you mean PALANCA_LISTEN__PORT?)",
        "--port: listen.port: Input should be less than or equal to 65535",
    ]
    assert sorted(expected) == sorted(faults(tmp_path, text, environ, Flag("--port", PORT, 70000)))


SOURCE = "sources: [{name: a, prometheus: 'http://p', %s}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "1:1: keys and values are needed here"),
        ("interval: 2h", "1:11: must be between 5s and 1h"),
        ("interval: soon", "1:11: 'soon' is not a duration such as 30s"),
        ("interval: -5", "is not a duration"),
        ("interval: true", "is not a duration"),
        ("listen: 127.0.0.1", "1:9: Input should be a valid dictionary"),
        ("listen: {port: -1}", "1:16: Input should be greater than or equal to 0"),
        ("listen: {host: ''}", "1:17: must be text that can be printed"),
        ("listen: {tls: {cert_file: a}}", "1:15: key 'key_file' is missing"),
        ("auth: {tokens: [{name: a b, token_file: t}]}", "1:24: 'a b' is no name"),
        ("auth: {tokens: [{name: a, token: t}]}", "1:27: unknown key 'token' (did you mean token_file?)"),
        ("auth: {tokens: [{name: a, scope: admin, token_file: t}]}", "'admin' is not one of 'read' or 'write'"),
        ("log: {colour: true}", "1:7: unknown key 'colour' (one of format, level)"),
        ("history: {database: ''}", "write the path of a SQLite file"),
        ("history: {database: 'mysql://h/d'}", "palanca keeps its history in SQLite (a path) or PostgreSQL"),
        ("history: {database: 'postgresql://h'}", "the name of the database is missing"),
        ("history: {database: 'postgresql://h:x/d'}", "this URL cannot be read"),
        ("history: {database: 'sqlite://'}", "write sqlite:///PATH"),
        ("history: {database: a, database_file: b}", "1:10: database and database_file exclude each other"),
        ("history: {retention: 1s}", "must be between 1h and 3650d"),
        ("external_url: https://me:secret@h", "no user and password in it"),
        ("sources: [{prometheus: http://p}]", "key 'name' is missing"),
        ("sources: [{name: a, prometheus: 'http://p?x=1'}]", "give the URL without ? and #"),
        ("sources: [{name: a, prometheus: 'http://p:x'}]", "this URL cannot be read"),
        ("sources: [{name: a, prometheus: p:9090}]", "this is no HTTP URL"),
        ("sources: [{name: a, prometheus: 1}]", "a int is no URL"),
        ("sources: [{name: a, prometheus: http://p, scrape: [http://v]}]", "a source has either"),
        (SOURCE % "labels: {a-b: c}", "1:54: 'a-b' is no label of a target"),
        (SOURCE % "match: {__name__: c}", "'__name__' is no label of a target"),
        (SOURCE % "headers: {Authorization: x}", "Authorization is a secret; use bearer_file"),
        (SOURCE % "headers: {a b: x}", "'a b' is no name of a header"),
        (SOURCE % 'headers: {a: "x\\ny"}', "the value of a header is printable ASCII in one line"),
        (SOURCE % "headers: {A: x}, header_files: {a: x}", "a stands in headers and in header_files"),
        (SOURCE % "bearer_file: a, basic_file: b", "bearer_file and basic_file exclude each other"),
        ("alertmanager: {urls: [am:9093]}", "1:23: this is no HTTP URL"),
        ("alertmanager: {urls: [http://a/, http://a]}", "1:15: http://a stands there twice; keep one of them"),
        ("alertmanager: {urls: ['http://u:p@a'], bearer_file: t}", "bearer_file and user:password in the URL exclude"),
        ("alertmanager: {headers: {authorization: x}}", "authorization is a secret; use bearer_file"),
        ("alertmanager: {client_key: k}", "client_key needs client_cert"),
        (SOURCE % "client_key: a", "client_key needs client_cert"),
        (SOURCE % "timeout: 0s", "must be between 1s and 5m"),
        ("sources: [{name: a, prometheus: 'http://u:p@p', bearer_file: a}]", "user:password in the URL exclude"),
        ("thresholds: [{rules: {}}]", "Dictionary should have at least 1 item"),
        ("thresholds: [{rules: {kv-leak: {a: .nan}}}]", "Input should be a finite number"),
        ("thresholds: [{rules: {kv-leak: {a: .inf}}}]", "Input should be a finite number"),
        ("thresholds: [{rules: {kv-leak: {a: true}}}]", "must be a number"),
        ("thresholds: [{rules: {KV: {a: 1}}}]", "1:23: 'KV' must be lower case words"),
        ('listen: {host: "a\\0"}', "1:17: must be text that can be printed"),
        ('rules: "a\\0"', "1:9: must be the name of a file or folder"),
        ("rules: ''", "must be the name of a file or folder"),
        ("rules: [a]", "1:8: Input is not a valid path"),
        ("a: [", "not YAML"),
    ],
)  # fmt: skip
def test_faults_of_the_file(tmp_path: Path, text: str, message: str) -> None:
    """What cannot be meant is told with its place, and in words that help."""
    found = faults(tmp_path, text)
    assert any(message in one and one.startswith("palanca.yaml:") for one in found), found
    assert "secret@" not in str(found)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """The faults of the environment are told as well."""
    made = examine(tmp_path / "none.yaml", {"PALANCA_X": "1"})
    assert 2 == len(made.faults)
    with pytest.raises(RuleFileError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml", {})


def test_sound_elements_stay(tmp_path: Path) -> None:
    """One faulty source hides neither the others nor their places."""
    text = "sources:\n  - {name: a}\n  - {name: b, prometheus: http://b}\n"
    made = examine(written(tmp_path, text), {})
    assert ["b"] == [one.name for one in made.settings.sources]
    assert 3 == made.origin("sources", 0, "name").line
    assert {"sources"} == made.faulty
