"""Secrets from files: read late, checked, never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.permissions import nobody
from tests.settings.files import loaded, secret, written

from palanca.errors import RuleFileError, UsageError
from palanca.settings import read_secret, read_secrets

TOKEN = "0123456789abcdef0123456789abcdef"
TOKENS = "auth: {tokens: [{name: a, token_file: a}, {name: b, scope: write, token_file: b}]}\n"
SOURCE = "sources: [{name: s, prometheus: http://p, %s}]\n"


def test_all_secrets(tmp_path: Path) -> None:
    """Tokens with their scopes, credentials of sources, the URL of the database."""
    secret(tmp_path, "a")
    secret(tmp_path, "b", "another-token-of-some-length\r\n")
    secret(tmp_path, "bearer", "some bearer")
    secret(tmp_path, "pair", "me:pass:word\n")
    secret(tmp_path, "key", "k")
    secret(tmp_path, "db", "postgresql://u:hunter2@h/d\n")
    text = f"""{TOKENS}
history: {{database_file: db}}
sources:
  - {{name: s, prometheus: http://p, bearer_file: bearer, headers: {{X-Org: o}}, header_files: {{X-Key: key}}}}
  - {{name: t, prometheus: http://p, basic_file: pair}}
alertmanager: {{urls: [http://am], bearer_file: bearer, headers: {{X-Org: o}}}}
"""
    made = read_secrets(loaded(tmp_path, text))

    assert [("a", "read", TOKEN), ("b", "write", "another-token-of-some-length")] == [
        (one.name, one.scope, one.value.get_secret_value()) for one in made.tokens
    ]
    s, t = made.sources["s"], made.sources["t"]
    assert s.bearer is not None
    assert "some bearer" == s.bearer.get_secret_value()
    assert {"X-Org": "o", "X-Key": "k"} == {name: one.get_secret_value() for name, one in s.headers.items()}
    assert t.basic is not None
    assert ("me", "pass:word") == (t.basic[0], t.basic[1].get_secret_value())
    assert made.alertmanager.bearer == s.bearer
    assert {"X-Org"} == set(made.alertmanager.headers)
    assert made.database is not None
    assert made.database.url is not None
    assert "postgresql://u:hunter2@h/d" == made.database.url.get_secret_value()
    assert () == made.warnings
    for word in (TOKEN, "another-token", "some bearer", "pass:word", "hunter2"):
        assert word not in repr(made) + str(made)


def test_a_database_without_a_secret(tmp_path: Path) -> None:
    """The one of the settings is the one of the secrets, so that callers ask in one place."""
    made = loaded(tmp_path, "history: {database: palanca.db}")
    assert made.settings.history.database == read_secrets(made).database
    assert read_secrets(loaded(tmp_path, "interval: 30s")).database is None


def test_a_file_that_everybody_can_read_gives_a_warning(tmp_path: Path) -> None:
    """It works, as Kubernetes mounts secrets so."""
    path = secret(tmp_path, "a", mode=0o644)
    made = read_secrets(loaded(tmp_path, "auth: {tokens: [{name: a, token_file: a}]}"))
    assert (f"{path} can be read by everybody (mode 0644); chmod o-r {path}",) == made.warnings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty (write the secret into it)"),
        (" \n\n", "is empty"),
        ("a" * 20 + "\n" + "b" * 20, "has several lines"),
        ("a" * 20 + "\u2028" + "b" * 20, "has several lines"),
        ("hunter2", "shorter than 16 characters (make one with openssl rand -hex 32)"),
        ("0123456789abcde", "shorter than 16 characters"),
        ("two words that are long", "a token has no spaces in it"),
        ("0123456789abcdefé", "not printable ASCII"),
        ("0123456789\x07abcdef", "not printable ASCII"),
        ("x" * 70000, "is larger than 65536 bytes"),
    ],
)
def test_bad_tokens(tmp_path: Path, text: str, message: str) -> None:
    """The fault stands at the setting that names the file, and does not repeat the secret."""
    path = secret(tmp_path, "t", text)
    with pytest.raises(RuleFileError) as caught:
        read_secrets(loaded(tmp_path, f"auth: {{tokens: [{{name: a, token_file: {path}}}]}}"))
    assert str(caught.value).startswith(f"{tmp_path}/palanca.yaml:1:39: {path}")
    assert message in str(caught.value)
    assert not text.strip() or text not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize(
    ("text", "files", "message"),
    [
        (TOKENS, {"a": TOKEN, "b": TOKEN}, "b holds the token of 'a' too (each needs a token of its own)"),
        (TOKENS, {"a": TOKEN}, "b cannot be read: No such file or directory"),
        (SOURCE % "basic_file: a", {"a": "nocolon"}, "a: no colon in it (the file holds user:password)"),
        (SOURCE % "bearer_file: a", {"a": "é"}, "not printable ASCII"),
        (SOURCE % "header_files: {X-Key: a}", {"a": ""}, "a is empty"),
        ("history: {database_file: a}", {"a": "mysql://u:hunter2@h"}, "a: palanca keeps its history in SQLite"),
    ],
)
def test_other_faults(tmp_path: Path, text: str, files: dict[str, str], message: str) -> None:
    """What does not fit its purpose."""
    for name, content in files.items():
        secret(tmp_path, name, content)
    with pytest.raises(RuleFileError) as caught:
        read_secrets(loaded(tmp_path, text))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_all_faults_are_told(tmp_path: Path) -> None:
    """Both files of both tokens."""
    with pytest.raises(RuleFileError) as caught:
        read_secrets(loaded(tmp_path, TOKENS))
    assert 2 == len(caught.value.faults)


def test_no_file(tmp_path: Path) -> None:
    """Folders and pipes are refused instead of read, and so is what is no text."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(UsageError, match="is no file; name a file"):
            read_secret(path)
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_secret(tmp_path / "x")


def test_without_permission(tmp_path: Path) -> None:
    """The reason is told."""
    path = secret(tmp_path, "t", mode=0o000)
    with nobody(tmp_path), pytest.raises(UsageError, match="cannot be read: Permission denied"):
        read_secret(path)


def test_secrets_of_variables(tmp_path: Path) -> None:
    """The fault names the variable."""
    with pytest.raises(RuleFileError, match="PALANCA_AUTH__TOKENS"):
        read_secrets(loaded(tmp_path, "{}", {"PALANCA_AUTH__TOKENS": '[{"name": "a", "token_file": "/none"}]'}))
    assert written(tmp_path, "x").is_file()
