"""Structured logs on stderr: for people on a console, or one JSON object a line.

No log shows a credential: URLs and headers lose theirs, and tracebacks never show the values of variables.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from palanca.render.words import printable, without_credentials

if TYPE_CHECKING:
    from collections.abc import MutableMapping

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]
_QUIET = {
    "apscheduler": logging.ERROR,  # of polls that are left out we tell ourselves
    "uvicorn": logging.WARNING,
    "alembic": logging.WARNING,
    "urllib3": logging.WARNING,
    "asyncio": logging.WARNING,
}
"""From which importance on libraries are heard."""
_SHOWN_WHO = re.compile(r"\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


def setup(form: Format, level: Level, stream: TextIO | None = None) -> None:
    """Send all logs of this process, warnings and those of libraries too, to ``stream`` (stderr) in one form."""
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared[:2], *shared[3:], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_json() if form == "json" else _console(colors=stream.isatty())),
            ],
        )
    )
    handler.addFilter(lambda record: not _given_up(record))
    root = logging.getLogger()
    root.handlers = [handler]
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(capture=True)
    threading.excepthook = _thread_failed
    set_level(level)


def set_level(level: Level) -> None:
    """Write messages of this importance and above from now on."""
    logging.getLogger().setLevel(level.upper())


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a part."""
    made: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(f"palanca.{name}")
    return made


def _json() -> list[Any]:
    told = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False, use_rich=False))
    return [told, _harmless, structlog.processors.JSONRenderer()]


def _console(*, colors: bool) -> list[Any]:
    shown = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [structlog.processors.format_exc_info, _harmless, _one_line, shown]


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    """Tell of a thread that has died, in the form of all logs."""
    if failure.exc_value is not None and not isinstance(failure.exc_value, SystemExit):
        logging.getLogger("palanca.thread").critical("a thread has failed", exc_info=failure.exc_value)


def _given_up(record: logging.LogRecord) -> bool:
    """Whether it tells of an answer that was cut off because the service ends; the server says how many were."""
    return record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)


def _harmless(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take credentials out of every text, however deep it lies."""
    for key, value in event.items():
        event[key] = _without(value)
    return event


def _without(value: Any) -> Any:  # noqa: ANN401  whatever is logged
    if isinstance(value, BaseException):
        value = str(value)
    if isinstance(value, str):
        return _SHOWN_WHO.sub(r"\1\2***", without_credentials(value))
    if isinstance(value, Mapping):
        return {_without(key): _without(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without(one) for one in value]
    return value


def _one_line(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Show control characters as escapes: nobody writes lines or colours of their own into a console."""
    for key, value in event.items():
        if isinstance(value, str) and key not in {"exception", "stack"}:
            event[key] = printable(value)
    return event
