"""Logs: one form for all, and no credential in any of them."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from palanca import logs

SECRET = "s3cr3t-t0ken"
URL = f"https://user:{SECRET}@prometheus:9090/api"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Logs belong to the process: what a test sets up goes with it."""
    root = logging.getLogger()
    handlers, level, hook = root.handlers, root.level, threading.excepthook
    levels = {name: logging.getLogger(name).level for name in logs._QUIET}
    yield
    root.handlers, threading.excepthook = handlers, hook
    root.setLevel(level)
    for name, one in levels.items():
        logging.getLogger(name).setLevel(one)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def written(form: logs.Format = "json", level: logs.Level = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.setup(form, level, stream)
    return stream


def documents(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail() -> None:
    password = SECRET
    headers = {"Authorization": f"Bearer {password}"}
    message = f"cannot reach {URL} with {len(headers)} headers"
    raise ValueError(message)


# --- form ----------------------------------------------------------------------------------------


def test_json() -> None:
    """One object a line, with time, level and logger."""
    stream = written()
    logs.logger("poll").info("source fails", source="eu", labels={"a": [1, 2.5, None]}, text='"\n\x1b[31m漢')
    (one,) = documents(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", one.pop("timestamp"))
    assert {
        "event": "source fails", "level": "info", "logger": "palanca.poll", "source": "eu",
        "labels": {"a": [1, 2.5, None]}, "text": '"\n\x1b[31m漢',
    } == one  # fmt: skip


def test_libraries_write_in_the_same_form() -> None:
    """With their arguments filled in, and whatever more they give."""
    stream = written()
    logging.getLogger("uvicorn.error").warning("Invalid %s", "request", extra={"client": URL})
    (one,) = documents(stream)
    assert ("Invalid request", "warning", "uvicorn.error") == (one["event"], one["level"], one["logger"])
    assert "https://prometheus:9090/api" == one["client"]


@pytest.mark.parametrize("name", ["uvicorn.error", "apscheduler.scheduler", "alembic.runtime.migration", "asyncio"])
def test_libraries_are_quiet(name: str) -> None:
    """Also where palanca itself tells everything."""
    stream = written(level="debug")
    logging.getLogger(name).info("Started server process")
    logs.logger("poll").debug("polled")
    assert ["polled"] == [one["event"] for one in documents(stream)]


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_level(level: logs.Level, count: int) -> None:
    """As it is set up, and as it is set later."""
    for begun in (level, "info"):
        stream = written(level=begun)
        logs.set_level(level)
        log = logs.logger("poll")
        for say in (log.debug, log.info, log.warning, log.error):
            say("said")
        assert count == len(documents(stream))


def test_warnings_are_logs() -> None:
    """Python's own way would write lines that are no JSON."""
    stream = written()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    logging.captureWarnings(capture=False)
    (one,) = documents(stream)
    assert ("py.warnings", "warning") == (one["logger"], one["level"])
    assert "DeprecationWarning: old" in one["event"]


def test_a_thread_that_fails() -> None:
    """It is told as everything else is."""
    stream = written()
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    (one,) = documents(stream)
    assert ("palanca.thread", "critical") == (one["logger"], one["level"])
    assert "ValueError" == one["exception"][0]["exc_type"]
    assert SECRET not in stream.getvalue()


def test_console() -> None:
    """For people: a line each, with the values behind the message; no colours where there is no terminal."""
    stream = written("console")
    logs.logger("poll").warning("source fails", source="eu", error="refused it")
    (line,) = stream.getvalue().splitlines()
    assert re.search(r"\[warning +\] source fails +\[palanca\.poll\].*error='refused it'.*source=eu", line)
    assert "\x1b" not in line


def test_nobody_writes_lines_of_their_own_into_a_console() -> None:
    """Paths and labels come from outside."""
    stream = written("console")
    logs.logger("audit").info("write\nforged", path="/a\r\n2026-01-01 [info] forged\x1b[2J\u202e")
    assert 1 == len(stream.getvalue().splitlines())
    assert not re.search("[\x1b\r\u202e]", stream.getvalue())


# --- credentials ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "console"])
def test_credentials_never_appear(form: logs.Format) -> None:
    """In the message, in values however deep, in errors, and in what libraries say."""
    stream = written(form)
    log = logs.logger("serve")
    reading = f"reading {URL}"
    log.info(reading, url=URL, deep={URL: [{"a": (URL,)}, {URL}]}, error=ValueError(URL))
    log.info("asked", sent=f"Authorization: Bearer {SECRET}", basic=f"basic {SECRET}")
    logging.getLogger("urllib3").warning("Retrying %s", URL)
    assert SECRET not in stream.getvalue()
    assert "https://prometheus:9090/api" in stream.getvalue()
    assert "Bearer ***" in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_tracebacks_show_no_variables(form: logs.Format) -> None:
    """They say where it failed, and nothing of what was in memory there."""
    stream = written(form)
    try:
        fail()
    except ValueError:
        logs.logger("serve").exception("failed", url=URL)
        logging.getLogger("apscheduler.executors.default").exception("Job failed")
    text = stream.getvalue()
    assert SECRET not in text
    assert "ValueError" in text
    assert "cannot reach https://prometheus:9090/api" in text
    assert 2 == len(re.findall(r"\bin fail\b" if form == "console" else '"fail"', text))
    if form == "json":
        assert 2 == len(documents(stream))
