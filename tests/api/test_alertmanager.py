"""The webhook of Alertmanager."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.api.apps import FakeSink, Json, World, fleet, world

from palanca.api.access import Token, Tokens
from palanca.api.guard import LARGEST_BODY, Rules
from palanca.errors import BusyError, HistoryError

PATH = "/api/v1/alertmanager"
ALERT: Json = {
    "status": "firing",
    "labels": {"alertname": "VllmKvCacheSaturated", "palanca_rule": "kv-cache-saturated", "instance": "vllm-0:8000"},
    "annotations": {"summary": "full"},
    "startsAt": "2026-11-29T20:04:00.123456789Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "generatorURL": "http://prometheus:9090/graph?g0.expr=x",
    "fingerprint": "4b1c9e0f5a7d2e83",
}
SENT: Json = {
    "version": "4",
    "groupKey": '{}/{severity="critical"}:{alertname="VllmKvCacheSaturated"}',
    "truncatedAlerts": 2,
    "status": "firing",
    "receiver": "palanca",
    "groupLabels": {"alertname": "VllmKvCacheSaturated"},
    "commonLabels": {"alertname": "VllmKvCacheSaturated"},
    "commonAnnotations": {},
    "externalURL": "http://am:9093",
    "alerts": [ALERT],
}


@pytest.fixture
def sink() -> FakeSink:
    return FakeSink()


@pytest.fixture
def mine(sink: FakeSink) -> World:
    return world(fleet(), sink=sink)


def test_a_group(mine: World, sink: FakeSink) -> None:
    """All of it is handed on, with what the diagnosis says."""
    answer = mine.post(PATH, SENT)
    (kept,) = sink.groups.values()
    assert 200 == answer.status
    assert {"schema": "palanca.accepted/v1", "identity": kept.group.identity, "alerts": 1, "unknown": 0} == answer.json
    group, one = kept.group, kept.group.alerts[0]
    assert (SENT["groupKey"], "firing", "palanca", "http://am:9093", 2) == (
        group.key, group.status, group.receiver, group.external_url, group.left_out,
    )  # fmt: skip
    assert (SENT["groupLabels"], SENT["commonLabels"], {}) == (
        group.group_labels, group.common_labels, group.common_annotations,
    )  # fmt: skip
    assert (ALERT["labels"], ALERT["annotations"], None) == (one.labels, one.annotations, one.ends)
    assert 1795982640.123456 == one.starts
    assert (ALERT["fingerprint"], ALERT["generatorURL"]) == (one.fingerprint, one.generator_url)
    assert kept.alerts[0].accused[0].recommendations


def test_again(mine: World, sink: FakeSink) -> None:
    """A second try is the same notification; its end is another one."""
    first, second = mine.post(PATH, SENT), mine.post(PATH, SENT)
    assert first.json == second.json
    over = {**ALERT, "status": "resolved", "endsAt": "2026-11-29T20:10:00Z"}
    mine.post(PATH, {**SENT, "status": "resolved", "alerts": [over]})
    assert 2 == len(sink.groups)
    assert 1795983000.0 == [*sink.groups.values()][1].group.alerts[0].ends


def test_what_cannot_be_kept(mine: World, sink: FakeSink) -> None:
    """503, so that Alertmanager tries again; and then it is taken."""
    sink.failures = [HistoryError("the database is down"), BusyError("too many")]
    for words in ("this cannot be kept now: the database is down", "too many"):
        answer = mine.post(PATH, SENT)
        assert (503, "5", "application/problem+json") == (answer.status, answer["Retry-After"], answer["Content-Type"])
        assert words in answer.json["detail"]
    assert 200 == mine.post(PATH, SENT).status
    assert 1 == len(sink.groups)


def test_nobody_to_tell() -> None:
    """Is said, and not swallowed."""
    answer = world(fleet()).post(PATH, SENT)
    assert 503 == answer.status
    assert "no receiver" in answer.json["detail"]


def test_an_engine_that_is_unknown(mine: World, sink: FakeSink) -> None:
    """Is told all the same."""
    answer = mine.post(PATH, {**SENT, "alerts": [{**ALERT, "labels": {"instance": "gone:1"}}]})
    assert (200, 1) == (answer.status, answer.json["unknown"])
    assert "nothing that palanca watches" in next(iter(sink.groups.values())).remark


def test_what_later_releases_add(mine: World) -> None:
    """Is no fault, nor is what earlier ones lack."""
    more = {**SENT, "notificationReason": "x", "alerts": [{**ALERT, "new": {"a": 1}}]}
    assert 200 == mine.post(PATH, more).status
    needed = ("version", "groupKey", "status", "receiver", "groupLabels")
    bare = {name: SENT[name] for name in needed}
    alert = {name: ALERT[name] for name in ("status", "labels", "startsAt", "fingerprint")}
    assert 200 == mine.post(PATH, {**bare, "alerts": [alert]}).status


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"version": "3"}, "body.version"),
        ({"version": 4}, "body.version"),
        ({"groupKey": ""}, "body.groupKey"),
        ({"status": "suppressed"}, "body.status"),
        ({"alerts": []}, "body.alerts"),
        ({"alerts": [{**ALERT, "labels": {"a": 1}}]}, "body.alerts.0.labels.a"),
        ({"alerts": [{**ALERT, "startsAt": "yesterday"}]}, "body.alerts.0.startsAt"),
        ({"alerts": [{**ALERT, "startsAt": "2026-11-29T20:04:00"}]}, "body.alerts.0.startsAt"),
        ({"alerts": [{**ALERT, "fingerprint": ""}]}, "body.alerts.0.fingerprint"),
        ({"truncatedAlerts": -1}, "body.truncatedAlerts"),
        ({"groupLabels": None}, "body.groupLabels"),
    ],
)
def test_what_is_no_notification(change: Mapping[str, Any], parameter: str, mine: World, sink: FakeSink) -> None:
    """A problem that says where; nothing is kept."""
    answer = mine.post(PATH, {**SENT, **change})
    assert 422 == answer.status
    assert parameter in [one["parameter"] for one in answer.json["errors"]]
    assert [] == sink.tries


def test_size(mine: World, sink: FakeSink) -> None:
    """As many alerts as the exported configuration sends fit, with long texts; a body beyond the limit is refused."""
    alerts = [{**ALERT, "fingerprint": f"{at:016x}", "annotations": {"description": "x" * 2000}} for at in range(100)]
    assert 200 == mine.post(PATH, {**SENT, "alerts": alerts}).status
    assert 413 == mine.post(PATH, {**SENT, "externalURL": "x" * LARGEST_BODY}).status
    assert 1 == len(sink.tries)


def test_who_may_send() -> None:
    """A token of scope write."""
    tokens = Tokens([Token("grafana", "read", "r" * 16), Token("alertmanager", "write", "w" * 16)])
    mine = world(fleet(), rules=Rules(tokens), sink=FakeSink())
    statuses = [
        mine.post(PATH, SENT, **headers).status
        for headers in ({}, {"Authorization": "Bearer " + "r" * 16}, {"Authorization": "Bearer " + "w" * 16})
    ]
    assert [401, 403, 200] == statuses
    assert (
        415
        == mine.send(
            "POST", PATH, headers={"Authorization": "Bearer " + "w" * 16}, body=json.dumps(SENT).encode()
        ).status
    )


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'"\xff"', b"null", b"[" * 10_000])
def test_what_is_not_even_json(body: bytes, mine: World, sink: FakeSink) -> None:
    """Is a problem of the one who sends it."""
    answer = mine.send("POST", PATH, headers={"Content-Type": "application/json"}, body=body)
    assert (422, "application/problem+json") == (answer.status, answer["Content-Type"])
    assert ["body"] == [one["parameter"].partition(".")[0] for one in answer.json["errors"]]
    assert [] == sink.tries
