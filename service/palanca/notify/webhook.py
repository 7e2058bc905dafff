"""A generic webhook: JSON of a template, signed if so set."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import requests
from pydantic import SecretStr
from urllib3.exceptions import DecodeError

from palanca import __version__
from palanca.errors import NotifyError
from palanca.notify.values import values
from palanca.outgoing import Sent
from palanca.render.template import filled
from palanca.render.words import printable

if TYPE_CHECKING:
    from palanca.outgoing import Delivery

SIGNATURE, TIMESTAMP, KEY = "X-Palanca-Signature", "X-Palanca-Timestamp", "Idempotency-Key"
TIMEOUT_S = 10.0
_OWN_FAULT: Final = frozenset({400, 413, 415, 422})
"""Statuses that say that this message is wrong, and not the way to the receiver."""
_WORDS: Final[Mapping[str, str]] = {
    "NewConnectionError": "connection refused",
    "NameResolutionError": "unknown host",
    "ConnectTimeoutError": "no connection in time",
    "ReadTimeout": "no answer in time",
}
_MOST_SAID, _MOST_SHOWN = 2000, 200
_TOO_MANY, _UNAVAILABLE, _REDIRECT, _BAD = 429, 503, 300, 400


@dataclass(frozen=True)
class Hook:
    """Where to send, and how. ``template`` None sends every value. ``headers`` may hold secrets."""

    url: SecretStr
    shown: str
    template: Any = None
    headers: Mapping[str, SecretStr] = field(default_factory=dict)
    secret: SecretStr | None = None
    ca_file: Path | None = None
    timeout: float = TIMEOUT_S


class Webhook:
    """Posts JSON. ``Idempotency-Key`` is the same at every try, so that a receiver can drop what it has.

    With a secret, ``X-Palanca-Signature: sha256=HEX`` is the HMAC-SHA-256 of the header ``X-Palanca-Timestamp``, a full
    stop and the body.
    """

    def __init__(self, hook: Hook, session: requests.Session | None = None) -> None:
        self._hook, self._session = hook, session or requests.Session()
        self._session.headers["User-Agent"] = f"palanca/{__version__}"

    def send(self, delivery: Delivery) -> Sent:
        """Send one message. Raises ``NotifyError``."""
        hook, given = self._hook, values(delivery)
        body = json.dumps(given if hook.template is None else filled(hook.template, given), allow_nan=False).encode()
        headers = {"Content-Type": "application/json", KEY: delivery.key}
        headers |= {name: value.get_secret_value() for name, value in hook.headers.items()}
        if hook.secret is not None:
            stamp = str(int(delivery.now))
            headers |= {TIMESTAMP: stamp, SIGNATURE: signature(hook.secret.get_secret_value(), stamp, body)}
        try:
            answer = self._session.post(
                hook.url.get_secret_value(), data=body, headers=headers, timeout=hook.timeout, allow_redirects=False,
                verify=True if hook.ca_file is None else str(hook.ca_file), stream=True,
            )  # fmt: skip
            with answer:  # its body is read no further than it is told of
                text = _said(answer) if answer.status_code >= _REDIRECT else ""
        except requests.ConnectionError as error:
            raise NotifyError(f"{hook.shown} cannot be reached: {_why(error)}") from None
        except (requests.RequestException, OSError, ValueError) as error:
            raise NotifyError(f"{hook.shown} did not answer: {_why(error)}", unsure=True) from None
        if answer.status_code >= _REDIRECT:
            raise _refused(hook.shown, answer, text, delivery.now)
        return Sent()


def signature(secret: str, stamp: str, body: bytes) -> str:
    """``sha256=`` and the HMAC of time stamp and body, in hexadecimal."""
    return "sha256=" + hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _said(answer: requests.Response) -> str:
    """The beginning of a body: what comes with the first piece; nothing where it cannot be unpacked."""
    try:
        return answer.raw.read1(_MOST_SAID, decode_content=True).decode("utf-8", "replace")
    except DecodeError:
        return ""


def _refused(shown: str, answer: requests.Response, text: str, now: float) -> NotifyError:
    status = answer.status_code
    wait = retry_after(answer.headers.get("Retry-After"), now) if status in {_TOO_MANY, _UNAVAILABLE} else None
    text = printable(" ".join(text[:_MOST_SHOWN].split()))
    if status < _BAD:
        text = "it answers with a redirect; give the address that it leads to"
    about: Any = "message" if status in _OWN_FAULT else "receiver"
    return NotifyError(f"{shown} answers {status}" + (f": {text}" if text else ""), about=about, retry_after=wait)


def retry_after(text: str | None, now: float) -> float | None:
    """Read the header ``Retry-After``, seconds or a date, as seconds; None for what cannot be meant."""
    if text is None:
        return None
    try:
        return max(float(int(text)), 0.0)
    except (ValueError, OverflowError):
        pass
    try:
        moment = parsedate_to_datetime(text)
        return max((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now, 0.0)
    except (ValueError, OverflowError):
        return None


def _why(error: Exception) -> str:
    """Why, without the address: it may hold a secret."""
    inner = error.args[0] if error.args else error
    reason = getattr(inner, "reason", inner)
    text = str(getattr(reason, "strerror", None) or type(reason).__name__)
    return _WORDS.get(text, text)
