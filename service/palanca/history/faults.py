"""Errors of databases in words: what is wrong, where, and how to mend it; never with a password."""

from __future__ import annotations

import re

from palanca.errors import HistoryError
from palanca.history.address import Address

_SPACE = re.compile(r"\s+")
_LONGEST = 300
_SHORTEST_SECRET = 4

_ANOTHER_FILE = "name another file with --database"
_FILE_HINTS: tuple[tuple[str, str], ...] = (
    ("permission denied", f"give palanca the right to use the file and its folder, or {_ANOTHER_FILE}"),
    ("read-only file system", _ANOTHER_FILE),
    ("no space left", "make room on the disk"),
    ("directory", _ANOTHER_FILE),
)
_HINTS: tuple[tuple[str, str], ...] = (
    # SQLite
    ("disk is full", "make room on the disk"),
    ("readonly database", "give palanca the right to write the file and its folder, or name another with --database"),
    ("unable to open database file", "give palanca the right to use the folder, or name another with --database"),
    ("disk I/O error", "the disk is full, failing, or a file of the database is not writable"),
    ("is not a database", f"{_ANOTHER_FILE}, or move this one away"),
    ("malformed", "the file is damaged: restore a backup, or move it away to begin anew"),
    ("database is locked", "another program holds the file; it is tried again"),
    ("locking protocol", "this file system cannot lock files: use a local disk"),
    # PostgreSQL
    ("password authentication failed", "check the user and the password"),
    ("no password supplied", "give the password, as postgresql://user:password@host/database or in its file"),
    ("no pg_hba.conf entry", "the server does not admit this user from here: see its pg_hba.conf"),
    ("Connection refused", "start the server, or mend host and port"),
    ("No such file or directory", "start the server, or mend the path of its socket"),
    ("resolve host", "mend the name of the host"),
    ("Name or service not known", "mend the name of the host"),
    ("timeout expired", "the host does not answer: check address and firewall"),
    ("does not exist", "create it, or mend its name"),
    ("permission denied", "grant it to palanca's user"),
    ("must be owner", "let palanca's user own its tables"),
    ("read-only transaction", "the server is a standby or set to read only: name the primary"),
    ("lock timeout", "another program holds the tables; it is tried again"),
    ("statement timeout", "the server is too slow now; it is tried again"),
    ("could not extend file", "make room on the disk of the server"),
    ("too many connections", "raise max_connections of the server"),
    ("remaining connection slots", "raise max_connections of the server"),
)


def told(error: Exception, address: Address, doing: str) -> HistoryError:
    """Turn an error of SQLAlchemy, a driver or the file system into one line. ``doing`` is to open, read or write."""
    cause = getattr(error, "orig", None) or error
    file = isinstance(cause, OSError)
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    text = _SPACE.sub(" ", text).strip() or type(cause).__name__
    for secret in address.secrets:
        if len(secret) >= _SHORTEST_SECRET:  # a letter replaced everywhere would give it away
            text = text.replace(secret, "***")
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + " ..."
    hint = next((hint for part, hint in (_FILE_HINTS if file else _HINTS) if part.lower() in text.lower()), "")
    return HistoryError(f"cannot {doing} the history in {address.place}: {text}" + (f" ({hint})" if hint else ""))
