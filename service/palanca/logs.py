"""Structured logs on stderr: for people on a console, or one JSON object a line."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO

import structlog

from palanca.render.words import without_credentials

if TYPE_CHECKING:
    from collections.abc import MutableMapping

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]
_QUIET = ("apscheduler", "uvicorn", "alembic", "urllib3", "asyncio")
"""Libraries of which only warnings are wanted."""


def setup(form: Format, level: Level, stream: TextIO | None = None) -> None:
    """Send all logs of this process, those of libraries too, to ``stream`` (stderr) in one form."""
    stream = stream or sys.stderr
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _harmless,
    ]
    last = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if form == "json"
        else [structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    )
    structlog.configure(
        processors=[*shared[:2], *shared[3:], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last]
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    set_level(level)


def set_level(level: Level) -> None:
    """Write messages of this importance and above from now on."""
    logging.getLogger().setLevel(level.upper())


def _harmless(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take credentials out of every text."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = without_credentials(value)
    return event


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a part."""
    made: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(f"palanca.{name}")
    return made
