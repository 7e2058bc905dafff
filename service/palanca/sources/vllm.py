"""One vLLM server over HTTP: its ``/metrics``, and what ``/version`` and ``/v1/models`` say of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from palanca.errors import SourceError
from palanca.model import Fact, ServerReport
from palanca.sources.exposition import ExpositionParser, Page
from palanca.sources.session import Access, Answer, CarefulSession, split_url

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SCRAPE_S = 10.0
"""Prometheus' default ``scrape_timeout``: a page that takes longer is of no use to it either."""
LARGEST_PAGE = 64 * 1024**2
"""Bytes after unpacking: about a thousand engines."""

ACCEPT = "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.7, */*;q=0.1"
_OWN_PATHS = ("/metrics", "/v1")
_OK = 200
_SERVER_FAULT = 500
_HINTS = {
    401: "credentials are missing or wrong: give a bearer token, or user and password",
    403: "these credentials may not read the metrics: check their rights",
    404: "no metrics at this path: is this the port of vLLM's API server? Behind a gateway name the server itself",
    405: "no metrics at this path: is this the port of vLLM's API server?",
    429: "a proxy limits the number of questions: scrape less often, or go round it",
    503: "the server or a proxy before it is not ready: is the model still loading?",
}
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Scrape:
    """A scrape that succeeded: the page, its size in bytes after unpacking, and how long it took in seconds."""

    page: Page
    size: int
    seconds: float


class VllmServer:
    """Asks one server. ``url`` may end in ``/metrics`` or ``/v1``; user and password in it are used and never shown.

    Raises ``UsageError`` for a URL that is none. Not to be used by several threads at once.
    """

    def __init__(self, url: str, access: Access, *, timer: Callable[[], float] = time.monotonic) -> None:
        bare, access = split_url(url, access)
        for path in _OWN_PATHS:
            bare = bare.removesuffix(path).rstrip("/")
        self.url = bare
        parts = urlsplit(bare)
        self.instance = f"{parts.netloc}{'' if parts.port else f':{_DEFAULT_PORTS[parts.scheme]}'}{parts.path}"
        bounded = replace(
            access,
            timeout=min(access.timeout, LONGEST_SCRAPE_S),
            max_bytes=min(access.max_bytes, LARGEST_PAGE),
            attempts=1,  # the next scrape is the next attempt
        )
        self._session = _Session(bounded, bare)
        self._parser, self._timer = ExpositionParser(), timer

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def stop(self) -> None:
        """End what is under way with a ``SourceError``; nothing can be asked afterwards."""
        self._session.stop()

    def scrape(self) -> Scrape:
        """Read ``/metrics``. Raises ``SourceError``."""
        start = self._timer()
        answer = self._get("/metrics", {"Accept": ACCEPT})
        url = f"{self.url}/metrics"
        if answer.status_code != _OK:
            raise SourceError(f"{url}: {refusal(answer)}")
        page = self._parser.parse(answer.content, content_type=answer.headers.get("Content-Type", ""), url=url)
        return Scrape(page, len(answer.content), self._timer() - start)

    def report(self) -> ServerReport:
        """What the server says of itself; empty where it does not answer, as with an API key of its own."""
        length = longest_context(self._document("/v1/models"))
        facts = {} if length is None else {"max_model_len": Fact(length, "reported", "/v1/models max_model_len")}
        return ServerReport(vllm_version(self._document("/version")), facts)

    def _document(self, path: str) -> object:
        try:
            return document(self._get(path, {"Accept": "application/json"}))
        except SourceError:
            return None

    def _get(self, path: str, headers: dict[str, str]) -> Answer:
        return self._session.get(self.url + path, headers=headers)


class _Session(CarefulSession):
    """Says of an answer that is too large what holds for a page."""

    too_large = "is this the page of one server?"

    def get(self, url: str | bytes, **options: Any) -> Answer:  # noqa: ANN401  as in requests
        return self.request("GET", url, **options)


def refusal(answer: Answer) -> str:
    """Say what a status other than 200 means and what to do."""
    status = answer.status_code
    hint = _HINTS.get(status, "the server or a proxy before it fails: see its log" if status >= _SERVER_FAULT else "")
    return f"HTTP {status} {answer.reason or ''}".rstrip() + (f" ({hint})" if hint else "")


def document(answer: Answer) -> object:
    """Read the JSON of an answer; None where it is none or the status is not 200."""
    if answer.status_code != _OK:
        return None
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        return None


def vllm_version(said: object) -> str | None:
    """Release in the answer of ``/version``; None for that of Prometheus, which names the Go version too."""
    version = said.get("version") if isinstance(said, dict) and "goVersion" not in said else None
    return version if isinstance(version, str) and version.strip() else None


def longest_context(said: object) -> float | None:
    """``max_model_len`` in the answer of ``/v1/models``: tokens of the base model, None where names disagree."""
    rows = said.get("data") if isinstance(said, dict) else None
    base = [row for row in rows if isinstance(row, dict) and not row.get("parent")] if isinstance(rows, list) else []
    lengths = {row.get("max_model_len") for row in base if isinstance(row.get("max_model_len"), int)}
    length = lengths.pop() if len(lengths) == 1 else None
    return float(length) if length is not None and not isinstance(length, bool) and length > 0 else None
