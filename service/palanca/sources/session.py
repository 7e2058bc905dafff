"""An HTTP session that keeps its promises: a total deadline, a largest answer, careful redirects, bounded retries."""

from __future__ import annotations

import re
import threading
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
import urllib3
from requests.auth import AuthBase

import palanca
from palanca.errors import SourceError, UsageError
from palanca.sources.room import Room
from palanca.sources.transport import Transport

MOST_REDIRECTS = 5
LONGEST_PAUSE_S = 10.0
LONGEST_CONNECT_S = 3.0
"""A handshake takes milliseconds; a lost packet of it is sent again after 1 s."""
RETRIED = frozenset({429, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHUNK = 64 * 1024
_SYSTEM_ERROR = re.compile(r"Error\(\d+, '([^']+)'\)")


@dataclass(frozen=True)
class Access:
    """How to reach a server and how to show who asks.

    ``timeout`` in seconds bounds one question as a whole, with its redirects, retries and pauses; ``max_bytes`` the
    answers that are under way, unpacked, all together. ``attempts`` counts the first one; ``backoff`` is the first
    pause in seconds, doubled each time. ``ca_file`` replaces the system's certificate authorities; ``insecure`` checks
    no certificate.
    """

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    bearer: str | None = field(default=None, repr=False)
    basic: tuple[str, str] | None = field(default=None, repr=False)
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    insecure: bool = False
    timeout: float = 30.0
    max_bytes: int = 256 * 1024**2
    attempts: int = 3
    backoff: float = 0.25

    @property
    def secret(self) -> bool:
        """Whether a question carries anything that another host should not see."""
        return bool(self.headers or self.bearer or self.basic or self.client_cert)


def split_url(url: str, access: Access) -> tuple[str, Access]:
    """Take user and password out of a URL, and put them into the access unless it has some.

    Returns the URL without them and without a slash at the end. Raises ``UsageError``.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"a URL that cannot be read: {error} (write http://HOST:PORT)") from None
    if parts.scheme not in {"http", "https"} or not host:
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        raise UsageError(f"{shown}: not an HTTP URL (write http://HOST:PORT or https://HOST/PATH)")
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None else ""
    bare = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
    if parts.query or parts.fragment:
        raise UsageError(f"{bare}: give the URL without ? and # (the API adds its own)")
    if parts.username and access.basic is None and access.bearer is None:
        basic = (unquote(parts.username), unquote(parts.password or ""))
        access = Access(**{**vars(access), "basic": basic})
    return bare, access


class Answer(requests.Response):
    """A whole answer: status, headers and body, already read.

    ``ahead`` is by how many seconds the clock of the server is before ours; None where it tells no date.
    """

    def __init__(self, response: requests.Response, body: bytes, ahead: float | None = None) -> None:
        super().__init__()
        self.status_code, self.headers, self.url = response.status_code, response.headers, response.url
        self.reason, self.encoding = response.reason, response.encoding
        self._body = body
        self.document: Any = None
        self.ahead = ahead

    @property
    def content(self) -> bytes:
        """The body."""
        return self._body

    def json(self, **_: Any) -> Any:  # noqa: ANN401  JSON is anything
        """Whatever was read from the body and put into ``document``."""
        return self.document


class CarefulSession(requests.Session):
    """A session for questions to one server. All failures are ``SourceError``; statuses are left to the caller."""

    too_large = "narrow it down with --match"
    """What to do about an answer with more bytes than allowed."""

    def __init__(self, access: Access, url: str) -> None:
        """``url`` without credentials, from ``split_url``. Raises ``UsageError``."""
        super().__init__()
        self._access, self._stopped, self._room = access, threading.Event(), Room(access.max_bytes)
        self.headers["User-Agent"] = f"palanca/{palanca.__version__}"
        self.headers.update(access.headers)
        self.auth = _Credentials(access)
        self.verify = False if access.insecure else str(access.ca_file) if access.ca_file else True
        if access.client_cert:
            cert = str(access.client_cert)
            self.cert = (cert, str(access.client_key)) if access.client_key else cert
        if access.insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self.trust_env = not _loopback(urlsplit(url).hostname or "")  # proxies from the environment, as curl does
        self.use_transport(url)

    @property
    def patience(self) -> float:
        """Longest time for one question as a whole, in seconds."""
        return self._access.timeout

    def use_transport(self, url: str) -> None:
        """Send what goes to the URL, and to wherever it redirects, over our own transport."""
        for prefix in ("http://", "https://", url):
            self.mount(prefix, Transport(pool_connections=8, pool_maxsize=32))

    def stop(self) -> None:
        """End what is under way, in other threads too, with a ``SourceError``; nothing can be asked afterwards."""
        self._stopped.set()
        for adapter in self.adapters.values():
            if isinstance(adapter, Transport):
                adapter.hang_up()

    def request(self, method: str | bytes, url: str | bytes, *_: Any, **options: Any) -> Answer:  # noqa: ANN401
        """Ask and read the whole answer; the parameters of a POST become its form. Raises ``SourceError``."""
        verb, address = _text(method).upper(), _text(url)
        form = {"data" if verb == "POST" else "params": options.get("params"), "headers": options.get("headers")}
        deadline, pause = time.monotonic() + self.patience, self._access.backoff
        for attempt in range(1, self._access.attempts + 1):
            last = attempt == self._access.attempts
            try:
                answer = self._follow(verb, address, form, deadline)
            except _LostConnectionError as lost:
                if last or self._stopped.is_set() or time.monotonic() + pause >= deadline:
                    raise SourceError(str(lost)) from None
                wait = pause
            else:
                wait = max(pause, _retry_after(answer))
                if answer.status_code not in RETRIED or last or time.monotonic() + wait >= deadline:
                    return answer
                if b'"errorType":"timeout"' in answer.content[:1000]:  # the same question would take as long again
                    return answer
            self._stopped.wait(wait)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        raise AssertionError  # pragma: no cover  the last attempt returns or raises

    def _follow(self, method: str, url: str, form: Mapping[str, Any], deadline: float) -> Answer:
        """Ask, and follow redirects within the same server with the same method. Raises ``SourceError``."""
        start, seen = url, {url}
        while True:
            answer = self._once(method, url, form, deadline)
            to = answer.headers.get("Location")
            if answer.status_code not in REDIRECTS or not to:
                return answer
            here = url
            try:
                url = urljoin(url, to)
                shown = split_url(url.partition("?")[0].partition("#")[0], Access())[0]
            except UsageError as error:
                raise SourceError(f"{start}: redirects to {error}") from None
            except ValueError:
                raise SourceError(f"{start}: redirects to what is no URL (check the URL and the proxy)") from None
            if self._access.secret and not _same_server(here, url):
                raise SourceError(
                    f"{start}: redirects to {shown}, which will not be given the credentials "
                    "(use that URL if it is the right one)"
                )
            if url in seen or len(seen) > MOST_REDIRECTS:
                raise SourceError(f"{start}: redirects in a circle (check the URL and its path, and http or https)")
            seen.add(url)

    def get_redirect_target(self, _: requests.Response) -> None:
        """Keep requests from reading where an answer leads, which may be no URL; it is followed with more care."""

    def _once(self, method: str, url: str, form: Mapping[str, Any], deadline: float) -> Answer:
        left = deadline - time.monotonic()
        patience = (min(left, LONGEST_CONNECT_S), left)
        if self._stopped.is_set():
            raise SourceError(f"{url}: not asked, since palanca is stopping")
        try:
            if left <= 0:
                raise requests.Timeout
            response = super().request(
                method, url, stream=True, allow_redirects=False, timeout=patience, verify=self.verify, **form
            )
            with response:
                ahead = _ahead(response.headers.get("Date", ""))  # before the body, which may take its time
                return Answer(response, self._body(response, url), ahead)
        except SourceError:
            raise
        except OSError as error:  # every error of requests is one, and so is a missing certificate file
            if isinstance(error, requests.ConnectTimeout) and time.monotonic() < deadline:
                raise _LostConnectionError(
                    f"{url}: no connection within {patience[0]:g} s (is the host up? Is a firewall in the way?)"
                ) from None
            if isinstance(error, requests.Timeout) or time.monotonic() >= deadline:
                hint = "Poll it less often" if self.patience < self._access.timeout else "Allow a longer timeout"
                raise SourceError(
                    f"{url}: no whole answer within {self.patience:g} s (is the server overloaded? {hint})"
                ) from None
            raise explained(error, url) from None
        except UnicodeError:
            raise SourceError(f"{url}: cannot be asked: the question is no UTF-8 text (check the labels)") from None

    def _body(self, response: requests.Response, url: str) -> bytes:
        body = bytearray()
        with self._room.part() as part:
            for piece in response.iter_content(_CHUNK):
                body += piece
                if part.full(len(piece)):
                    body.clear()  # the traceback would keep them
                    most = f"more than {self._access.max_bytes:,} bytes"
                    alone = part.size > self._access.max_bytes
                    said = f"the answer has {most}" if alone else f"the answers under way have {most} together"
                    raise SourceError(f"{url}: {said} ({self.too_large})")
            return bytes(body)


class _LostConnectionError(SourceError):
    """A connection that could not be made, or that broke: worth another try."""


def explained(error: OSError, url: str) -> SourceError:
    """Say what went wrong with a connection and how to mend it."""
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError):
        return SourceError(f"{url}: TLS failed: {_core(text)} (check the host name, or give its CA file)")
    if isinstance(error, requests.exceptions.ProxyError):
        return _LostConnectionError(f"{url}: the proxy failed: {_core(text)} (check HTTP_PROXY and NO_PROXY)")
    if "refused" in text:
        return _LostConnectionError(f"{url}: connection refused (is the server running, and is this its port?)")
    if "NameResolution" in text or "resolve" in text:
        return _LostConnectionError(f"{url}: no such host (check the name and DNS)")
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError):
        return _LostConnectionError(f"{url}: the answer broke off: {_core(text)} (does it restart?)")
    if isinstance(error, requests.ConnectionError):
        return _LostConnectionError(f"{url}: the connection failed: {_core(text)} (is this an HTTP server?)")
    return SourceError(f"{url}: cannot be asked: {_core(text)}")


def _core(text: str) -> str:
    """Return the last, innermost part of a chain of errors: what the system says, where it says something."""
    if system := _SYSTEM_ERROR.findall(text):
        return str(system[-1])
    return text.rpartition("Caused by ")[2].strip("()'\" ")[:300]


class _Credentials(AuthBase):
    """Sends what was given, and keeps ``requests`` from reading a ``.netrc`` file."""

    def __init__(self, access: Access) -> None:
        self._bearer, self._basic = access.bearer, access.basic

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._bearer:
            request.headers["Authorization"] = f"Bearer {self._bearer}"
        elif self._basic:
            pair = b64encode(":".join(self._basic).encode()).decode()
            request.headers["Authorization"] = f"Basic {pair}"
        return request


def _retry_after(answer: requests.Response) -> float:
    text = answer.headers.get("Retry-After", "").strip()
    return float(text) if text.isdecimal() else 0.0


def _ahead(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None


def _same_server(here: str, there: str) -> bool:
    old, new = urlsplit(here), urlsplit(there)
    if old.hostname != new.hostname:
        return False
    return (old.scheme, old.port) == (new.scheme, new.port) or (old.scheme, new.scheme) == ("http", "https")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _text(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text
