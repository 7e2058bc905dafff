"""What a generic webhook can say of a delivery: every placeholder of a template with its value, plain JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from palanca.quantities import finite, rfc3339
from palanca.render.notice import Notice, headline
from palanca.render.words import encodable, printable

if TYPE_CHECKING:
    from palanca.outgoing import Delivery

SCHEMA = "palanca.notice/v1"


def values(delivery: Delivery) -> dict[str, Any]:
    """Every placeholder with its value, plain JSON. Of a digest or summary most are empty, and ``notices`` is not."""
    notice = delivery.notice or Notice("", "firing", "info", "")
    proposal = notice.proposal
    made: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": delivery.kind,
        "id": delivery.key,
        "key": notice.key,
        "state": notice.state,
        "severity": notice.severity,
        "title": notice.title,
        "what": notice.what,
        "where": notice.where,
        "text": _text(delivery),
        "news": list(delivery.news),
        "labels": dict(notice.labels),
        "affected": notice.affected,
        "total": notice.total,
        "engines": list(notice.engines),
        "evidence": list(notice.evidence),
        "rule": notice.rule,
        "cause": notice.cause,
        "confidence": notice.confidence,
        "source": notice.source,
        "symptoms": list(notice.symptoms),
        "reason": notice.reason,
        "since": None if notice.since is None else rfc3339(notice.since),
        "ended": None if notice.ended is None else rfc3339(notice.ended),
        "lasted_s": finite(notice.lasted_s),
        "time": rfc3339(delivery.now),
        "change": proposal.change if proposal else None,
        "proposal": None if proposal is None else _plain(asdict(proposal)),
        "alternatives": list(notice.alternatives),
        "remarks": [{"time": rfc3339(one.time), "text": one.text} for one in notice.remarks],
        "episode": notice.episode,
        "links": asdict(notice.links),
        "notices": [_brief(one) for one in delivery.many],
    }
    return {name: _plain(value) for name, value in made.items()}


def _text(delivery: Delivery) -> str:
    if delivery.notice is not None:
        return "\n".join([headline(delivery.notice), *map(printable, delivery.news)])
    if delivery.kind == "test":
        return "Test message of palanca: nothing is wrong"
    return "\n".join(headline(one) for one in delivery.many)


def _brief(notice: Notice) -> dict[str, Any]:
    return {
        "key": notice.key, "state": notice.state, "severity": notice.severity, "title": notice.title,
        "where": notice.where, "labels": dict(notice.labels), "rule": notice.rule, "cause": notice.cause,
        "source": notice.source, "since": None if notice.since is None else rfc3339(notice.since),
        "ended": None if notice.ended is None else rfc3339(notice.ended),
        "change": notice.proposal.change if notice.proposal else None,
    }  # fmt: skip


def _plain(value: Any) -> Any:  # noqa: ANN401  JSON is anything
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {encodable(str(key)): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    return value
