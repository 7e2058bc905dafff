"""Entry points of what clients send: the webhook of Alertmanager, queries of the API and of the pages."""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterator
from functools import cache
from urllib.parse import urlencode

from tests.api.apps import World, fleet, kept, world
from tests.engines import shipped
from tests.fuzz.entry import Entry, room
from tests.slack import check_message

from palanca.notify.alert_groups import EnrichedGroup
from palanca.notify.group_notices import notice_of
from palanca.render import slack
from palanca.render.notice import Places

PLACES = Places("https://palanca.example.com", "https://grafana/d/x", "https://prometheus", "https://am")
PATHS = (
    "/diagnose", "/api/v1/targets", "/api/v1/findings", "/api/v1/signals", "/api/v1/rules", "/api/v1/history",
    "/api/v1/history/events", "/api/v1/alerts/prometheus.yaml", "/api/v1/alerts/alertmanager.yaml",
    "/api/v1/dashboards/fleet.json", "/", "/engine", "/timeline", "/rules", "/size", "/sign-in",
)  # fmt: skip


class Teller:
    """Tells each group to a Slack that keeps its limits, as the service would."""

    def accept(self, group: EnrichedGroup) -> None:
        for catalogue in (None, shipped()):
            notice = notice_of(group, PLACES, catalogue)
            for made in (slack.message(notice), slack.summary((notice,)), slack.digest((notice, notice))):
                check_message(made)
            check_message(slack.bare(slack.plain(notice)))


@cache
def application() -> World:
    """The whole application over a small fleet, with a history."""
    history = kept(room("history"), fleet())
    atexit.register(history.close)
    return world(fleet(), history=history, sink=Teller())


def webhook(body: bytes) -> bool:
    """Send bytes as Alertmanager sends a group."""
    answer = application().send("POST", "/api/v1/alertmanager", headers={"Content-Type": "application/json"}, body=body)
    return _documented(answer.status, answer.get("Content-Type"), answer.body, {200, 400, 413, 422})


def _documented(status: int, kind: str | None, body: bytes, statuses: set[int]) -> bool:
    assert status in statuses, (status, body[:2000])
    if status >= 400 and "html" not in (kind or ""):
        assert kind == "application/problem+json"
        said = json.loads(body)
        assert status == said["status"]
        assert said["title"]
    return status < 400


def groups() -> Iterator[bytes]:
    """Return groups of alerts, of a rule of ours and of somebody else's."""
    labels = dict(fleet().targets[0].target.labels)
    alert = {
        "status": "firing", "labels": {**labels, "alertname": "A", "palanca_rule": "kv-cache-saturated"},
        "annotations": {"summary": "it *is* <so>", "description": "d & `e`"}, "startsAt": "2026-11-29T20:09:11Z",
        "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "http://p/graph?g0.expr=x", "fingerprint": "f0",
    }  # fmt: skip
    group = {
        "version": "4", "groupKey": '{}:{alertname="A"}', "truncatedAlerts": 0, "status": "firing", "receiver": "r",
        "groupLabels": {"alertname": "A"}, "commonLabels": {"severity": "critical"}, "commonAnnotations": {},
        "externalURL": "http://am", "alerts": [alert],
    }  # fmt: skip
    yield json.dumps(group).encode()
    other = {**alert, "labels": {"alertname": "B"}, "status": "resolved", "endsAt": "2026-11-29T21:09:11+01:00"}
    yield json.dumps({**group, "status": "resolved", "alerts": [other, alert]}).encode()


def query(data: bytes) -> bool:
    """Ask a route, which the first byte chooses, with the rest as its query."""
    path = PATHS[data[0] % len(PATHS)] if data else PATHS[0]
    answer = application().get(path, data[1:].translate(None, b" \r\n#"))
    return _documented(answer.status, answer.get("Content-Type"), answer.body, {200, 303, 400, 404, 409, 414, 422, 503})


def queries() -> Iterator[bytes]:
    """Return queries that every route takes in part."""
    for number in range(len(PATHS)):
        yield bytes([number])
        yield (
            bytes([number])
            + urlencode(
                [("model", "llama"), ("match", "job=vllm"), ("severity", "critical"), ("limit", "2"), ("offset", "1")]
            ).encode()
        )
        yield bytes([number]) + urlencode([("time", "-30m"), ("instance", "vllm-0:8000"), ("q", "kv")]).encode()
    yield bytes([PATHS.index("/size")]) + b"reference=llama-3.1-8b&gpu=h100-sxm&gpus=2&users=10&context=4096"


QUERY_WORDS = (
    "time=", "match=", "fields=", "cursor=", "limit=", "severity=", "config=", "gpu=", "gpus=", "users=", "context=",
    "vllm=", "weight_bytes=", "utilization=", "span=7d", "rule=", "source=", "%00", "%ff", "%ed%a0%80", "1e999", "=",
    "&", "-1", "NaN", "prefix=", "releases=", "selector=", "instance=", "q=", "to=//", "since=", "until=", "open=",
)  # fmt: skip
GROUP_WORDS = (
    '"startsAt"', '"endsAt"', '"9999-12-31T23:59:59-23:59"', '"0001-01-01T00:00:00+23:59"', '"\\ud800"', "null", "[]",
    '"labels"', '"summary"', '"<!channel>"', '"*_~`&<>|"', '"\\u202e"', '"\\u0000"', '"alertname"', '"fingerprint"',
)  # fmt: skip
REQUESTS = (Entry("webhook", webhook, groups, GROUP_WORDS), Entry("query", query, queries, QUERY_WORDS))
