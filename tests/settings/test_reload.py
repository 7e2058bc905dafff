"""What differs between two settings, and what of it needs a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.settings.files import settings

from palanca.settings import Settings, changed

BEFORE = """
sources: [{name: a, prometheus: 'http://me:one@p', headers: {X-Key: one}}, {name: b, prometheus: http://b}]
auth: {tokens: [{name: t, token_file: /t}]}
"""


def test_nothing_changed(tmp_path: Path) -> None:
    """Equal settings differ in nothing, whatever their files look like."""
    assert () == changed(settings(tmp_path, "interval: 60s"), settings(tmp_path, "{interval: 1m}"))


def test_changes(tmp_path: Path) -> None:
    """Elements with a name are followed by it; what is secret is told without its value."""
    after = """
interval: 1m
sources: [{name: b, prometheus: http://b}, {name: a, prometheus: 'http://me:two@p', headers: {X-Key: two}}]
thresholds: [{rules: {kv-leak: {a: 1}}}]
"""
    made = [str(one) for one in changed(settings(tmp_path, BEFORE), settings(tmp_path, after))]
    assert [
        "auth.tokens: not there -> []",
        "auth.tokens[t].name: t -> not there",
        "auth.tokens[t].scope: read -> not there",
        "auth.tokens[t].token_file: /t -> not there",
        "interval: 30s -> 1m",
        "sources[a].headers.X-Key: changed",
        "sources[a].prometheus: changed",
        "thresholds: [] -> not there",
        "thresholds[0].match: not there -> {}",
        "thresholds[0].rules.kv-leak: not there -> {'a': 1}",
    ] == made


@pytest.mark.parametrize(
    ("text", "restart"),
    [
        ("listen: {port: 1}", True),
        ("listen: {tls: {cert_file: a, key_file: b}}", True),
        ("history: {database: a}", True),
        ("history: {enabled: false}", True),
        ("history: {retention: 1d}", False),
        ("log: {format: json}", True),
        ("log: {level: debug}", False),
        ("interval: 1m", False),
        ("auth: {metrics: true}", False),
        ("sources: [{name: a, prometheus: http://p}]", False),
        ("rules: a", False),
        ("targets: [{match: {a: b}}]", False),
    ],
)
def test_what_needs_a_restart(tmp_path: Path, text: str, restart: bool) -> None:
    """Where it listens, where it writes, and the form of the log."""
    made = changed(Settings(), settings(tmp_path, text))
    assert made
    assert restart == any(one.restart for one in made)
