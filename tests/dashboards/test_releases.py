"""Panels show of every release, under every prefix, what palanca reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TextIO

import pytest
from tests.dashboards.boards import PROMETHEUS_BOARDS, Asked, filled, queries
from tests.dashboards.worlds import Server, serving, write_page
from tests.engines import shipped
from tests.signals.test_exposition_releases import NEED_A_PAST, NEVER_ON_A_PAGE, TEXTS, readings, states

from palanca import expressions
from palanca.model import State
from palanca.signals.versions import counts, releases_of

END = 10_000.0
LACKING = {State.ABSENT, State.NOT_APPLICABLE}
PREFIXES = shipped().metrics.prefixes
ALL = {"job": "$__all", "model_name": "$__all", "instance": "$__all", "__range": "600s"}
SIGNALS = sorted({one.ref for name in PROMETHEUS_BOARDS for one in queries(name)} & shipped().signals.keys())


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """All pages under all prefixes, each a server of its own."""

    def write(out: TextIO) -> None:
        for path in TEXTS:
            for prefix in PREFIXES:
                labels = {"job": prefix, "instance": path.stem}
                write_page(out, path.read_text(encoding="utf-8"), labels, END, prefix=prefix)

    with serving(tmp_path_factory.mktemp("releases"), [write]) as server:
        yield server


@cache
def asked(signal: str) -> Asked:
    return next(one for name in PROMETHEUS_BOARDS for one in queries(name) if one.ref == signal)


def has(page: str, signal: str) -> bool:
    """Whether palanca reads it there, and all that it is computed from: an idle page hides what is missing."""
    expr = shipped().signals[signal].expr
    parts = expressions.names(expressions.parse(expr)) if expr is not None else ()
    return states(readings(page))[signal] not in LACKING and all(has(page, one) for one in parts)


def counted(page: str, signal: str) -> bool:
    """Whether a release that a page may be of counts the label values that a signal asks for."""
    spec, (version,) = shipped().signals[signal], readings(page).versions
    family = shipped().metrics.families.get(spec.family or "")
    return family is None or counts(family, spec.where, releases_of(version))


@pytest.mark.parametrize("signal", [one for one in SIGNALS if one not in NEVER_ON_A_PAGE | NEED_A_PAST])
def test_signal(releases: Server, signal: str) -> None:
    """There is a series exactly where palanca has a reading.

    PromQL knows no releases: what one does not count is not applicable for palanca, and nothing but 0 in a panel.
    """
    found = {
        (one["job"], one["instance"]): value for one, value in releases.instant(filled(asked(signal).expr, ALL), END)
    }
    for path in TEXTS:
        there = has(path.stem, signal)
        for prefix in PREFIXES:
            place = (prefix, path.stem)
            if counted(path.stem, signal):
                assert there == (place in found), place
            else:
                assert (False, True) == (there, not found.get(place, 0.0) > 0), place


def test_what_releases_do_not_count() -> None:
    """Errors before 0.13.0, on some of the pages."""
    pages = {path.stem for path in TEXTS if not counted(path.stem, "error_share")}
    assert pages
    assert pages < {path.stem for path in TEXTS}


def test_the_five_panels_have_something_of_every_release(releases: Server) -> None:
    """Speculation and prefix caching apart, which a release may lack."""
    every = {(prefix, path.stem) for path in TEXTS for prefix in PREFIXES}
    for signal in ("ttft_p50", "ttft_p99", "kv_cache_usage", "running", "waiting"):
        found = releases.instant(filled(asked(signal).expr, ALL), END)
        assert every == {(one["job"], one["instance"]) for one, _ in found}, signal
