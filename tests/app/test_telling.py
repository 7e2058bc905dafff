"""Settings become receivers, routes and links; ``palanca notify test`` tries them."""

from __future__ import annotations

import subprocess
import threading
from datetime import UTC, time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from tests.app.test_assembly import EU, made
from tests.notify.rooms import Clock
from tests.servers import Reply, Request, answering, free_port
from tests.serving import PALANCA, environment
from tests.settings.files import faults, loaded, secret, settings, written
from tests.slack import CHANNEL, TOKEN, FakeSlack, slack

from palanca.app.telling import TRIED_AT_ONCE, trial
from palanca.errors import UsageError
from palanca.notify.routing import Quiet, Route, Routing
from palanca.notify.slack import Bot, IncomingWebhook
from palanca.notify.webhook import Webhook
from palanca.render.notice import Places
from palanca.settings.checkup import check_all

HOOKS = "notify: {slack: [{name: ops, webhook_url_file: hook}], webhooks: [{name: pager, url: 'https://pager/in'}]"


def notify(place: Path, fake: FakeSlack, more: str = "") -> Path:
    """Settings with one receiver of each kind; the last one does not answer."""
    secret(place, "hook", fake.hook)
    secret(place, "token", TOKEN)
    text = f"""
notify:
  slack:
    - {{name: hook, webhook_url_file: hook}}
    - {{name: bot, token_file: token, channel: {CHANNEL}, api_url: {fake.api}}}
  webhooks: [{{name: pager, url: 'http://127.0.0.1:{free_port()}/in'}}]
{more}"""
    return written(place, text)


# --- plans -----------------------------------------------------------------------------------------


def test_without_receivers(tmp_path: Path) -> None:
    """Nobody is told, and Alertmanager decides."""
    told = made(tmp_path, EU).telling
    assert ((), (), None) == (tuple(told.mailboxes), told.routing.receivers, told.tell)


def test_receivers(tmp_path: Path) -> None:
    """Each with its pace; only a bot can change its messages."""
    with slack() as fake:
        text = EU + notify(tmp_path, fake).read_text()
        told = made(tmp_path, text).telling
    assert [IncomingWebhook, Bot, Webhook] == [type(one.receiver) for one in told.mailboxes]
    assert [("hook", False, 1.0), ("bot", True, 1.0), ("pager", False, 0.1)] == [
        (one.name, one.updates, one.pace_s) for one in told.mailboxes
    ]
    assert ("hook", "bot", "pager") == told.routing.receivers


def test_routes(tmp_path: Path) -> None:
    """As they are written."""
    secret(tmp_path, "hook", "https://hooks.slack.com/services/x")
    route = (
        "{match: {model_name: llama}, source: [eu], severity: [critical], cause: [hang], rule: [engine-hung], "
        "to: [ops], continue: true, digest: 10m, "
        "quiet_hours: {from: 22:00, to: '07:00', zone: Europe/Madrid, days: [sat], passes: []}}"
    )
    told = made(
        tmp_path, f"{EU}external_url: https://p\n{HOOKS}, path: direct, routes: [{route}, {{to: []}}]}}"
    ).telling
    quiet = Quiet(time(22), time(7), ZoneInfo("Europe/Madrid"), frozenset({5}), frozenset())
    first = Route(
        ("ops",), {"model_name": "llama"}, frozenset({"eu"}), frozenset({"critical"}), frozenset({"hang"}),
        frozenset({"engine-hung"}), quiet, 600.0, go_on=True,
    )  # fmt: skip
    assert Routing(("ops", "pager"), (first, Route(()))) == told.routing
    assert Places("https://p") == told.places
    assert told.tell is not None


def test_quiet_hours_in_utc(tmp_path: Path) -> None:
    """Which needs no data of time zones."""
    secret(tmp_path, "hook", "https://hooks.slack.com/services/x")
    text = f"{EU}{HOOKS}, routes: [{{to: [ops], quiet_hours: {{from: '22:00', to: '07:00'}}}}]}}"
    (route,) = made(tmp_path, text).telling.routing.routes
    assert Quiet(time(22), time(7), UTC) == route.quiet


@pytest.mark.parametrize(
    ("more", "link"),
    [
        ("path: direct", None),
        ("path: direct}\nalertmanager: {urls: [http://am], silences: false", None),
        ("path: direct}\nalertmanager: {urls: [http://am]", "https://am"),
        ("path: alertmanager", "https://am"),
    ],
)
def test_where_silences_are_made(tmp_path: Path, more: str, link: str | None) -> None:
    """Only where one would mute what palanca tells."""
    text = f"{EU}notify: {{webhooks: [{{name: a, url: 'http://x'}}], links: {{alertmanager: https://am}}, {more}}}"
    assert link == made(tmp_path, text).telling.places.alertmanager


# --- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slack: [{name: a}]", "either webhook_url_file, or token_file and channel"),
        ("slack: [{name: a, token_file: t}]", "token_file and channel belong together"),
        ("slack: [{name: a, webhook_url_file: t, channel: C0123456}]", "an incoming webhook has its own channel"),
        ("slack: [{name: a, webhook_url_file: t, api_url: 'http://x'}]", "api_url is for a bot"),
        ("slack: [{name: a, token_file: t, channel: 'no channel'}]", "no channel; write its ID"),
        ("webhooks: [{name: a}]", "a webhook has either url or url_file"),
        ("webhooks: [{name: a, url: 'http://x', template: {a: '{titel}'}}]", "there is no placeholder {titel}"),
        ("webhooks: [{name: a, url: 'http://x', timeout: 1h}]", "must be between 1s and 30s"),
        ("routes: [{to: [a]}]", "no receiver 'a' (add it under notify.slack or webhooks)"),
        ("webhooks: [{name: a, url: 'http://x'}], routes: [{to: [b]}]", "no receiver 'b' (one of a)"),
        ("webhooks: [{name: a, url: 'http://x'}, {name: a, url: 'http://x'}]", "'a' is already the name of another"),
        (
            "slack: [{name: a, webhook_url_file: t}], webhooks: [{name: a, url: 'http://x'}]",
            "'a' is already the name of a Slack receiver",
        ),
        ("routes: [{to: [], quiet_hours: {from: 25:00, to: '07:00'}}]", "is no time of day; write 22:00, in quotes"),
        ("routes: [{to: [], quiet_hours: {from: '22:00', to: '07:00', zone: Mars}}]", "is no time zone"),
        ("routes: [{to: [], digest: 5s}]", "must be between 1m and 1d"),
        ("links: {dashboard: 'https://u:p@grafana'}", "no user and password in it"),
        ("links: {dashboard: grafana}", "no HTTP URL"),
    ],
)
def test_faults(tmp_path: Path, text: str, said: str) -> None:
    """With their place, and how to mend them."""
    found = faults(tmp_path, f"notify: {{{text}}}")
    assert any(said in one and one.startswith("palanca.yaml:1:") for one in found), found


def test_direct_needs_the_history(tmp_path: Path) -> None:
    """It remembers what was told."""
    (found,) = faults(tmp_path, "notify: {path: direct}\nhistory: {enabled: false}")
    assert "palanca.yaml:1:16: palanca tells nobody without the history" in found


@pytest.mark.parametrize("text", ["ftp://x", "hooks.slack.com/x", "https:///secret", "https://a b"])
def test_an_address_in_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    """It is not shown: it may be a secret."""
    secret(tmp_path, "hook", text)
    with pytest.raises(Exception, match="no HTTP address in it") as found:
        made(tmp_path, EU + HOOKS + "}")
    assert text not in str(found.value)


def test_clocks_without_quotes(tmp_path: Path) -> None:
    """YAML takes 22:00 for a number."""
    made_ = settings(tmp_path, "notify: {routes: [{to: [], quiet_hours: {from: 22:05, to: 7:00}}]}")
    quiet = made_.notify.routes[0].quiet_hours
    assert quiet is not None
    assert ("22:05", "07:00") == (quiet.begin, quiet.end)


# --- palanca notify test -------------------------------------------------------------------------


def tried(place: Path, config: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    given = [] if config is None else ["--config", str(config)]
    return subprocess.run(
        [*PALANCA, "notify", "test", *given, *arguments], check=False, capture_output=True, text=True, timeout=60,
        env=environment(place), cwd=place,
    )  # fmt: skip


def test_each_receiver_is_tried(tmp_path: Path) -> None:
    """What arrived, and what did not; one failure is exit code 1."""
    with slack(clock=Clock(), pace=0.0) as fake:
        done = tried(tmp_path, notify(tmp_path, fake))
        assert ["Test message of palanca: nothing is wrong"] * 2 == fake.titles
        (bot,) = [one for one in fake.messages if "`bot`" in one.whole]
    assert 1 == done.returncode
    assert f"hook: sent\nbot: sent, channel {CHANNEL}, ts {bot.ts}\n" == done.stdout
    assert "pager: not sent: the webhook pager cannot be reached: connection refused\n" == done.stderr


def test_one_receiver(tmp_path: Path) -> None:
    """By its name."""
    with slack() as fake:
        config = notify(tmp_path, fake)
        done = tried(tmp_path, config, "--receiver", "hook")
        assert (0, "hook: sent\n", "") == (done.returncode, done.stdout, done.stderr)
        assert 1 == len(fake.messages)
        done = tried(tmp_path, config, "--receiver", "none")
    assert (2, "palanca: there is no receiver 'none'; one of hook, bot, pager\n") == (done.returncode, done.stderr)


def test_all_are_asked_at_once(tmp_path: Path) -> None:
    """The first one answers after all others, and is told first all the same; so many at a time and no more."""
    count, first = TRIED_AT_ONCE + 4, threading.Event()
    lock, waiting, most, done = threading.Lock(), 0, 0, 0

    def reply(request: Request) -> Reply:
        nonlocal waiting, most, done
        with lock:
            waiting += 1
            most = max(most, waiting)
        if request.path == "/0":
            assert first.wait(30), "the others wait for the first one"
        with lock:
            waiting, done = waiting - 1, done + 1
            if done == count - 1:
                first.set()
        return Reply()

    with answering(reply) as server:
        hooks = ", ".join(f"{{name: n{one}, url: '{server.url}/{one}'}}" for one in range(count))
        found = [
            (one.receiver, one.error) for one in trial(loaded(tmp_path, f"notify: {{webhooks: [{hooks}]}}"), [], 0.0)
        ]
    assert [(f"n{one}", None) for one in range(count)] == found
    assert 1 < most <= TRIED_AT_ONCE


def test_nobody_to_tell(tmp_path: Path) -> None:
    """How to mend that."""
    done = tried(tmp_path, None)
    assert (2, "palanca: there is nobody to be told; add receivers under notify.slack or notify.webhooks\n") == (
        done.returncode, done.stderr
    )  # fmt: skip


def test_authorities_of_receivers_are_checked(tmp_path: Path) -> None:
    """By ``palanca config check``; a service with such a file does not start."""
    secret(tmp_path, "hook", "https://hooks.slack.com/services/x")
    written(tmp_path, "no certificate", "ca.pem")
    text = "notify: {slack: [{name: a, webhook_url_file: hook, ca_file: ca.pem}], "
    text += "webhooks: [{name: b, url: 'https://x', ca_file: none.pem}]}"
    found = [str(one) for one in check_all(loaded(tmp_path, text)).faults]
    assert ["ca.pem has no certificates that can be used", "none.pem cannot be read"] == [
        one.partition(f"{tmp_path}/")[2].partition(f"{tmp_path}/")[2].partition(":")[0] for one in found
    ]
    with pytest.raises(UsageError, match="notify: a ca_file cannot be used"):
        made(tmp_path, f"{EU}{text}")
