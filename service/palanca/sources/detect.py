"""What a URL is: a Prometheus-compatible query API or a vLLM server, told apart by asking."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

from palanca.errors import SourceError
from palanca.signals.identity import unprefixed
from palanca.sources.exposition import ExpositionParser
from palanca.sources.session import Access, Answer, CarefulSession, split_url
from palanca.sources.vllm import ACCEPT, LARGEST_PAGE, document, vllm_version

if TYPE_CHECKING:
    from palanca.model import Metrics

Kind = Literal["prometheus", "vllm"]

_OK = 200
_DENIED = frozenset({401, 403})
_OWN_PATHS = ("/metrics", "/v1")
_TRIES = 2


@dataclass
class _Asked:
    """What was asked so far and what came back, in words; statuses and errors for the hint."""

    answers: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    errors: list[SourceError] = field(default_factory=list)


def what_is(url: str, access: Access, metrics: Metrics, *, timer: Callable[[], float] = time.monotonic) -> Kind:
    """Ask a server what it is.

    First what vLLM does not count as traffic (``/metrics``, ``/version``), then the query API. ``access.timeout``
    bounds all questions together. Raises ``UsageError`` for a URL that is none, ``SourceError`` for a server that does
    not answer, and for one that is neither, with what was asked and what came back.
    """
    bare, access = split_url(url, access)
    base = bare
    for path in _OWN_PATHS:
        base = base.removesuffix(path).rstrip("/")
    bounded = replace(access, attempts=1, max_bytes=min(access.max_bytes, LARGEST_PAGE))
    questions: list[tuple[str, Callable[[Answer], Kind | str]]] = [
        (f"{base}/metrics", lambda answer: _metrics(answer, metrics)),
        (f"{base}/version", _version),
        (f"{bare}/api/v1/status/buildinfo", _query_api),
        (f"{bare}/api/v1/query?query=1", _query_api),
    ]
    asked, deadline = _Asked(), timer() + access.timeout
    for address, judge in questions:
        left = deadline - timer()
        if left <= 0 or (len(asked.errors) == _TRIES and not asked.statuses):
            break
        found = _ask(address, judge, replace(bounded, timeout=left), asked)
        if found is not None:
            return found
    if not asked.statuses:
        raise asked.errors[0]
    lines = [f"{bare}: neither a Prometheus nor a vLLM server ({_advice(asked)})", *asked.answers]
    raise SourceError("\n  ".join(lines))


def _ask(address: str, judge: Callable[[Answer], Kind | str], access: Access, asked: _Asked) -> Kind | None:
    """Ask one question and note the answer."""
    path = "/" + address.split("/", 3)[3]
    session = CarefulSession(access, address)
    try:
        answer = session.request("GET", address, headers={"Accept": f"{ACCEPT}, application/json"})
    except SourceError as error:
        asked.errors.append(error)
        asked.answers.append(f"GET {path}: {str(error).partition(': ')[2] or error}")
        return None
    finally:
        session.close()
    asked.statuses.append(answer.status_code)
    found = judge(answer) if answer.status_code == _OK else f"HTTP {answer.status_code} {answer.reason or ''}".rstrip()
    if found in {"prometheus", "vllm"}:
        return cast("Kind", found)
    asked.answers.append(f"GET {path}: {found}")
    return None


def _metrics(answer: Answer, metrics: Metrics) -> Kind | str:
    try:
        page = ExpositionParser().parse(answer.content, content_type=answer.headers.get("Content-Type", ""))
    except SourceError as error:
        return str(error).removeprefix("/metrics: ")
    if any(unprefixed(sample.name, metrics) for sample in page.samples):
        return "vllm"
    return f"{len(page.samples)} series, none of vLLM"


def _version(answer: Answer) -> Kind | str:
    """Recognise vLLM; Prometheus has this path too, with more in its answer."""
    said = document(answer)
    if vllm_version(said) is not None:
        return "vllm"
    return "no version of vLLM" if said is not None else "no JSON"


def _query_api(answer: Answer) -> Kind | str:
    said = document(answer)
    if isinstance(said, dict) and said.get("status") == "success" and "data" in said:
        return "prometheus"
    return "JSON, but not of the query API" if said is not None else "no JSON"


def _advice(asked: _Asked) -> str:
    if _DENIED & set(asked.statuses):
        return "it wants credentials: give a bearer token, or user and password"
    return "give the address of vLLM's API server, or the part of Prometheus' URL before /api/v1"
