"""Alertmanagers in the running service: findings are pushed, silences shown, and a reload changes both."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.app.test_assembly import made
from tests.daemon.fakes import Clock, Recorded, few, watching
from tests.engines import shipped
from tests.servers import Canned, Reply, Request, answering, free_port
from tests.serving import silent, until
from tests.settings.files import secret

from palanca.api.guard import Rules
from palanca.app.alertmanagers import Alertmanagers, Contacts
from palanca.app.service import Plan, Service, asgi
from palanca.app.telling import Telling
from palanca.daemon.snapshot import taken
from palanca.history.disabled import NoHistory
from palanca.history.facade import History
from palanca.history.store import HistoryStore
from palanca.model import Silenced
from palanca.outgoing import Look, Posting
from palanca.sources.session import Access
from palanca.telemetry import Telemetry

RULE = few().rules[0].id
SOURCE = "sources: [{name: eu, prometheus: http://p:9090}]\n"


def fake(request: Request) -> Reply:
    """An Alertmanager with one silence, of everything."""
    now = time.time()
    silence = {
        "id": "s1", "status": {"state": "active"}, "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z",
        "matchers": [{"name": "palanca_rule", "value": ".+", "isRegex": True}], "updatedAt": str(now),
    }  # fmt: skip
    return Reply(body=json.dumps([silence] if request.path.endswith("silences") else []).encode())


def plan(contacts: Contacts, clock: Clock) -> Plan:
    return Plan(few(), [watching(Recorded(clock))], Rules(), contacts=contacts)


def contacts(*urls: str, **more: Any) -> Contacts:  # noqa: ANN401  fields of Contacts
    access = Access(attempts=1, timeout=2.0)
    return Contacts(access=dict.fromkeys(urls, access), **{"rules": frozenset({RULE}), **more})


def lived(service: Service, work: Callable[[], Awaitable[None]]) -> None:
    """Do something while the service runs."""

    async def run() -> None:
        app: Any = asgi(service)
        inner = app._app
        async with inner.router.lifespan_context(inner):
            await asyncio.wait_for(service.daemon.first.wait(), 20)
            await work()

    asyncio.run(run())


def serving(contacts: Contacts) -> Service:
    clock = Clock()
    return Service(plan(contacts, clock), telemetry=Telemetry(clock), history=NoHistory(), clock=clock)


async def soon(found: Callable[[], object]) -> None:
    await asyncio.to_thread(until, found, 10)


def posted(canned: Canned) -> list[Request]:
    return [one for one in canned.requests if one.method == "POST"]


def test_pushed_and_silenced() -> None:
    """After the first poll; the silence is in the snapshot after the next, and in fresh diagnoses of now."""
    with answering(fake) as canned:
        service = serving(contacts(canned.url, external_url="http://p"))

        async def work() -> None:
            await soon(lambda: posted(canned))
            await soon(lambda: service.alertmanagers._reader and service.alertmanagers._reader.muting.silences)
            await service.daemon.publish()
            shown = json.loads(service.snapshot.json.body)["targets"][0]["findings"][0]
            assert {"by": ["s1"], "until": "2099-01-01T00:00:00Z"} == shown["silenced"]
            (report,) = (await service.fresh(None)).targets
            assert report.findings[0].silenced is not None
            (old,) = (await service.fresh(service.now() - 5)).targets
            assert old.findings[0].silenced is None

        lived(service, work)
        assert b'palanca_notifications_total{receiver="alertmanager",result="sent"} 1.0' in service.telemetry.text()


def test_silences_on_the_direct_path(tmp_path: Path) -> None:
    """What palanca tells by itself knows them."""
    clock, looks = Clock(), list[Look]()

    def tell(look: Look) -> Sequence[Posting]:
        looks.append(look)
        return ()

    with answering(fake) as canned:
        made = replace(plan(contacts(canned.url), clock), telling=Telling(tell=tell))
        history = History(HistoryStore(tmp_path / "palanca.db"), clock, clock)
        service = Service(made, telemetry=Telemetry(clock), history=history, clock=clock)

        async def work() -> None:
            await soon(lambda: service.alertmanagers._reader and service.alertmanagers._reader.muting.silences)
            await soon(lambda: looks)
            service._tell(looks[0])

        lived(service, work)
    (finding,) = [one for report in looks[-1].diagnosis.targets for one in report.findings]  # type: ignore[union-attr]
    assert Silenced(("s1",), 4070908800.0) == finding.silenced


def test_servers_that_fail_delay_nothing() -> None:
    """Neither one that is down nor one that hangs; the diagnosis is there, without silences, and the end is quick."""
    with silent() as slow:
        service = serving(contacts(slow, f"http://127.0.0.1:{free_port()}"))
        moments: list[float] = []

        async def work() -> None:
            (report,) = service.snapshot.diagnosis.targets
            assert report.findings[0].silenced is None
            moments.append(time.monotonic())
            await service.daemon.publish()
            moments.append(time.monotonic())

        lived(service, work)
        assert moments[1] - moments[0] < 1, "a diagnosis has waited for an Alertmanager"
        assert time.monotonic() - moments[1] < 4, "the end has waited for one"


def test_nothing_that_is_not_wanted() -> None:
    """Neither pushed nor read, if the settings say so."""
    with answering(fake) as canned:

        async def work() -> None:
            await asyncio.sleep(0.3)

        lived(serving(contacts(canned.url, rules=frozenset(), silences=False)), work)
        assert [] == canned.requests


def test_a_reload() -> None:
    """Other Alertmanagers from then on."""
    with answering(fake) as first, answering(fake) as second:
        service = serving(contacts(first.url))

        async def work() -> None:
            await soon(lambda: posted(first))
            await service.reload(lambda: replace(service.plan, contacts=contacts(second.url)))
            await soon(lambda: posted(second))

        lived(service, work)


@pytest.mark.parametrize("rules", [frozenset[str](), frozenset({"another"})])
def test_a_reload_after_which_a_rule_is_not_pushed(rules: frozenset[str]) -> None:
    """What it had pushed is ended at once; Alertmanager would believe in it for minutes."""
    with answering(fake) as canned:
        service = serving(contacts(canned.url))

        async def work() -> None:
            await soon(lambda: posted(canned))
            await service.reload(lambda: replace(service.plan, contacts=contacts(canned.url, rules=rules)))
            await soon(lambda: len(posted(canned)) == 2)
            pusher = service.alertmanagers._pusher
            await soon(lambda: pusher and not any(pusher.alive.values()))

        lived(service, work)


def test_a_rule_that_is_kept_firing() -> None:
    """Nothing is sent of a lapse that is shorter than ``keep_firing_for``; its end is."""
    clock, catalogue = Clock(), few()
    catalogue = replace(catalogue, rules=(catalogue.rules[0].model_copy(update={"keep_firing_for": 60.0}),))
    firing = watching(Recorded(clock))
    firing.poll()
    diagnosis = firing.view.diagnosis
    assert diagnosis is not None
    gone = tuple(replace(report, findings=()) for report in diagnosis.targets)
    with answering(fake) as canned:
        alertmanagers = Alertmanagers(Telemetry(clock), lambda: catalogue, clock)
        alertmanagers.use(contacts(canned.url, silences=False))
        try:
            alertmanagers.published(taken(diagnosis, 1))
            until(lambda: posted(canned), 10)
            alertmanagers.published(taken(replace(diagnosis, time=diagnosis.time + 30, targets=gone), 2))
            until(lambda: any(one.lapsed is not None for one in alertmanagers._episodes.values()), 10)
            alertmanagers.published(taken(replace(diagnosis, time=diagnosis.time + 60, targets=gone), 3))
            assert 1 == len(posted(canned))
            alertmanagers.published(taken(replace(diagnosis, time=diagnosis.time + 90, targets=gone), 4))
            until(lambda: len(posted(canned)) == 2, 10)
            assert {} == alertmanagers._episodes
        finally:
            alertmanagers.stop()


# --- settings ----------------------------------------------------------------------------------------


def test_from_the_settings(tmp_path: Path) -> None:
    """What no rule file can say is pushed; credentials reach all of them; nothing without addresses."""
    assert Contacts() == made(tmp_path, SOURCE).contacts
    token = secret(tmp_path, "token")
    text = f"""external_url: https://palanca.example
alertmanager:
  urls: [http://a:9093, http://b:9093/am/]
  bearer_file: {token}
  header_files: {{X-Scope-OrgID: {token}}}
  timeout: 5s
{SOURCE}"""
    found = made(tmp_path, text).contacts
    assert ["http://a:9093", "http://b:9093/am"] == list(found.access)
    secret_ = "0123456789abcdef0123456789abcdef"
    for access in found.access.values():
        assert (secret_, {"X-Scope-OrgID": secret_}, 5.0, 1) == (
            access.bearer, access.headers, access.timeout, access.attempts,
        )  # fmt: skip
    assert ("https://palanca.example", True) == (found.external_url, found.silences)
    assert {"kv-overcommitted", "max-model-len-large"} <= found.rules
    assert "kv-cache-saturated" not in found.rules
    assert found.rules < {rule.id for rule in shipped().rules}
    bare = made(tmp_path, "alertmanager: {urls: [http://a], push: false, silences: false}\n" + SOURCE).contacts
    assert (frozenset(), False) == (bare.rules, bare.silences)
