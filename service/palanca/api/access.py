"""Who may do what: tokens with scopes, compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Scope = Literal["read", "write"]


@dataclass(frozen=True)
class Token:
    """A secret, the name of who has it, and what it allows; write includes read. The secret is never shown."""

    name: str
    scope: Scope
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    scope: Scope


ANYBODY = Caller("anybody", "write")
"""Where no tokens are asked for."""


class Tokens:
    """The tokens that are known. Only their digests are kept, so that all comparisons take equally long."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._known = tuple((_digest(one.secret.encode()), Caller(one.name, one.scope)) for one in tokens)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._known)

    def caller(self, authorization: str) -> Caller | None:
        """Return who sends this header ``Authorization``: a bearer token, or one as the password of Basic (browsers).

        None for anybody else. Every known token is compared, whichever fits.
        """
        secret = _secret(authorization)
        presented = _digest(secret)
        found = None
        for digest, caller in self._known:
            if hmac.compare_digest(digest, presented):
                found = caller
        return found if secret else None  # an empty secret, should there be one, is nobody's

    def session(self, secret: str, until: float) -> str | None:
        """Return what a browser shows instead of a token until that time, unix seconds; None for an unknown token.

        It is signed with the token's digest, so that it ends with the token, and any replica can check it.
        """
        presented, found = _digest(secret.encode("utf-8", "replace")), None
        for digest, _ in self._known:
            if hmac.compare_digest(digest, presented):
                found = digest
        return _signed(found, f"{until:.0f}") if found is not None and secret else None

    def visitor(self, session: str, now: float) -> Caller | None:
        """Return who shows this session; it allows reading only, whatever the token does."""
        until = session.partition(".")[0]
        if not (until.isdecimal() and len(until) < _LONGEST_TIME and now < int(until)):
            return None
        found = None
        for digest, caller in self._known:
            if hmac.compare_digest(_signed(digest, until).encode(), session.encode("utf-8", "replace")):
                found = Caller(caller.name, "read")
        return found


_LONGEST_TIME = 15


def _signed(digest: bytes, until: str) -> str:
    mark = hmac.new(digest, f"session of a browser until {until}".encode(), hashlib.sha256)
    return f"{until}.{mark.hexdigest()}"


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _secret(authorization: str) -> bytes:
    """The secret as bytes; headers arrive as ISO 8859-1, whatever they hold."""
    kind, _, rest = authorization.strip().partition(" ")
    sent = rest.strip().encode("latin-1", "replace")
    if kind.lower() == "bearer":
        return sent
    if kind.lower() == "basic":
        try:
            return base64.b64decode(sent, validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
