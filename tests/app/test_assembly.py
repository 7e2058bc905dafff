"""Each setting reaches what it is for."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.engines import ROOT, target
from tests.servers import Request, answering
from tests.serving import NOTHING
from tests.settings.files import loaded, secret

from palanca.app.assembly import history_of, listening, plan, scraping
from palanca.app.server import Listen
from palanca.app.service import Plan
from palanca.errors import RuleFileError, SourceError, UsageError
from palanca.history.disabled import NoHistory
from palanca.history.facade import History
from palanca.history.leases import Lease
from palanca.model import Fact, Target
from palanca.poll import Question
from palanca.settings import Flag
from palanca.sources.prometheus import Prometheus
from palanca.sources.session import Access

EU = "sources: [{name: eu, prometheus: http://p:9090}]\n"
TOKEN = "0123456789abcdef0123456789abcdef"


def made(place: Path, text: str, environ: Mapping[str, str] | None = None, *flags: Flag) -> Plan:
    return plan(loaded(place, text, environ, *flags), clock=time.time, timer=time.monotonic)


def question(place: Path, text: str) -> Question:
    (watch,) = made(place, text).watches
    return watch.duty.question


def facts(asked: Question, where: Target) -> Mapping[str, Fact]:
    return asked.settings(where) if asked.settings is not None else {}


def thresholds(asked: Question, where: Target) -> Mapping[str, Mapping[str, float]]:
    return asked.thresholds(where) if asked.thresholds is not None else {}


def asked_by(place: Path, source: str) -> Request:
    """What a server sees of a poll; ``source`` is written into the settings, URL in place of {url}."""
    with answering(NOTHING) as server:
        (watch,) = made(place, f"sources: [{{name: eu, prometheus: {server.url}, {source}}}]").watches
        watch.poll()
        return server.requests[0]


# --- sources -------------------------------------------------------------------------------------


def test_nothing_to_watch(tmp_path: Path) -> None:
    """With both ways to mend it."""
    with pytest.raises(UsageError, match=r"nothing to watch.*--prometheus URL or --scrape URL"):
        made(tmp_path, "interval: 30s")


def test_a_prometheus(tmp_path: Path) -> None:
    """It is asked for instants; the window is kept here."""
    (watch,) = made(tmp_path, "interval: 1m\n" + EU).watches
    assert ("eu", 60.0, "http://p:9090") == (watch.name, watch.interval, watch.source.url)
    assert (True, None, {}) == (watch.duty.windowed, watch.duty.fill, watch.duty.labels)


def test_servers_to_scrape(tmp_path: Path) -> None:
    """They keep their own samples, and are looked at between polls too."""
    (watch,) = made(tmp_path, "sources: [{name: vllm, scrape: [http://a:8000, http://b:8000]}]").watches
    assert "http://a:8000, http://b:8000" == watch.source.url
    assert not watch.duty.windowed
    assert watch.duty.fill is not None


def test_several_sources_are_clusters(tmp_path: Path) -> None:
    """Where they have no labels of their own."""
    text = "sources: [{name: eu, prometheus: http://p}, {name: us, prometheus: http://q, labels: {region: us-1}}]"
    assert [{"cluster": "eu"}, {"region": "us-1"}] == [watch.duty.labels for watch in made(tmp_path, text).watches]


def test_matchers(tmp_path: Path) -> None:
    """Those of the source."""
    asked = question(tmp_path, "sources: [{name: eu, prometheus: http://p, match: {namespace: prod}}]")
    assert {"namespace": "prod"} == asked.matchers


@pytest.mark.parametrize(
    ("setting", "header"),
    [
        ("bearer_file: bearer", ("Authorization", f"Bearer {TOKEN}")),
        ("basic_file: basic", ("Authorization", "Basic dXNlcjpwYXNzOndvcmQ=")),
        ("headers: {X-Scope-OrgID: team}", ("X-Scope-OrgID", "team")),
        ("header_files: {X-Key: bearer}", ("X-Key", TOKEN)),
    ],
)
def test_credentials(tmp_path: Path, setting: str, header: tuple[str, str]) -> None:
    """They are sent."""
    secret(tmp_path, "bearer", TOKEN)
    secret(tmp_path, "basic", "user:pass:word")
    assert header[1] == asked_by(tmp_path, setting).headers[header[0]]


def test_credentials_of_the_url(tmp_path: Path) -> None:
    """Sent, and not shown."""
    with answering(NOTHING) as server:
        url = server.url.replace("//", "//user:pass@")
        (watch,) = made(tmp_path, f"sources: [{{name: eu, prometheus: '{url}'}}]").watches
        watch.poll()
        assert "Basic dXNlcjpwYXNz" == server.requests[0].headers["Authorization"]
        assert server.url == watch.source.url


def test_the_rest_of_the_access(tmp_path: Path) -> None:
    """Certificates and time-outs; relative paths are those of the file."""
    text = (
        "sources: [{name: eu, prometheus: https://p, ca_file: ca.pem, client_cert: c.pem, client_key: k.pem, "
        "insecure: true, timeout: 7s}]"
    )
    client = made(tmp_path, text).watches[0].source._client  # type: ignore[attr-defined]
    assert isinstance(client, Prometheus)
    access: Access = client._session._access
    assert (tmp_path / "ca.pem", tmp_path / "c.pem", tmp_path / "k.pem", True, 7.0) == (
        access.ca_file, access.client_cert, access.client_key, access.insecure, access.timeout,
    )  # fmt: skip


def test_a_secret_that_cannot_be_read(tmp_path: Path) -> None:
    """At the setting that names it."""
    with pytest.raises(RuleFileError, match=r"palanca\.yaml:1:.*none cannot be read"):
        made(tmp_path, "sources: [{name: eu, prometheus: http://p, bearer_file: none}]")


def test_waiting_for_scrapes_ends_when_it_is_stopped() -> None:
    """The first question waits for 15 s of scrapes; nobody waits for that at the end."""
    source = scraping(["http://127.0.0.1:9"], Access(timeout=1, attempts=1), time.time)
    begun = time.monotonic()
    failures: list[SourceError] = []

    def ask() -> None:
        try:
            source._collector._sleep(60)
        except SourceError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    source.stop()
    thread.join(10)
    assert time.monotonic() - begun < 5
    assert ["not scraped, since palanca is stopping"] == [str(one) for one in failures]


# --- what is known of targets ----------------------------------------------------------------------

KNOWN = """
sources:
  - {name: eu, prometheus: http://p, labels: {cluster: eu-1}}
targets:
  - match: {cluster: eu-1, model_name: m}
    serve_args: --max-num-seqs 99
    slo: {ttft_p99: 0.5}
thresholds:
  - match: {cluster: eu-1}
    rules: {kv-cache-saturated: {full: 0.7}}
"""


def test_facts_and_thresholds_see_the_added_labels(tmp_path: Path) -> None:
    """The source gives targets without them; the settings speak of what people see."""
    asked = question(tmp_path, KNOWN)
    assert 99 == facts(asked, target())["max_num_seqs"].value
    assert 0.5 == facts(asked, target())["slo.ttft_p99"].value
    assert {"kv-cache-saturated": {"full": 0.7}} == thresholds(asked, target())


def test_own_labels_go_before_the_added_ones(tmp_path: Path) -> None:
    """A target of another cluster is not meant."""
    asked = question(tmp_path, KNOWN)
    assert {} == facts(asked, target(cluster="us"))
    assert {} == thresholds(asked, target(cluster="us"))


def test_nothing_known(tmp_path: Path) -> None:
    """Then nothing is asked for each target."""
    asked = question(tmp_path, EU)
    assert (None, None) == (asked.settings, asked.thresholds)


def test_thresholds_are_checked_against_the_rules(tmp_path: Path) -> None:
    """With file, line, and the name that was meant."""
    text = EU + "thresholds: [{rules: {kv-cache-saturated: {ful: 0.7}}}]"
    with pytest.raises(RuleFileError, match=r"palanca\.yaml:2:.*no threshold 'ful'.*full"):
        made(tmp_path, text)


def test_rules_of_the_user(tmp_path: Path) -> None:
    """Laid over the shipped ones."""
    folder = tmp_path / "own" / "matrix" / "kv-cache"
    folder.mkdir(parents=True)
    shipped = made(tmp_path, EU).catalogue.rule("kv-cache-saturated")
    text = (ROOT / "rules" / "matrix" / "kv-cache" / "kv-cache-saturated.yaml").read_text()
    (folder / "kv-cache-saturated.yaml").write_text(text.replace("value: 0.85", "value: 0.5"))
    mine = made(tmp_path, EU + "rules: own").catalogue.rule("kv-cache-saturated")
    assert (0.85, 0.5) == (shipped.thresholds["full"].value, mine.thresholds["full"].value)


# --- who is let in -------------------------------------------------------------------------------


def test_on_loopback_without_tokens_only_names_of_this_machine(tmp_path: Path) -> None:
    """And that of external_url, by which a proxy in front passes requests on."""
    rules = made(tmp_path, EU + "external_url: https://palanca.example.com/x").rules
    assert frozenset({"localhost", "127.0.0.1", "::1", "palanca.example.com"}) == rules.hosts
    assert not rules.tokens


def test_tokens(tmp_path: Path) -> None:
    """With their scopes; then any name will do, and /metrics is open unless it is said."""
    secret(tmp_path, "t", TOKEN)
    text = EU + "auth: {tokens: [{name: ops, scope: write, token_file: t}]%s}\nlisten: {host: 0.0.0.0}"
    rules = made(tmp_path, text % "").rules
    caller = rules.tokens.caller(f"Bearer {TOKEN}")
    assert caller is not None
    assert ("ops", "write") == (caller.name, caller.scope)
    assert (None, False) == (rules.hosts, rules.metrics)
    assert made(tmp_path, text % ", metrics: true").rules.metrics


def test_no_auth(tmp_path: Path) -> None:
    """Anybody, on any address; tokens that are there count no more."""
    secret(tmp_path, "t", TOKEN)
    text = EU + "auth: {tokens: [{name: ops, token_file: t}], disabled: true}\nlisten: {host: 0.0.0.0}"
    rules = made(tmp_path, text).rules
    assert not rules.tokens
    assert rules.hosts is None


def test_strangers_are_not_let_in_by_accident(tmp_path: Path) -> None:
    """With how to mend it."""
    with pytest.raises(UsageError, match=r"0\.0\.0\.0 lets others in.*auth\.tokens.*--no-auth"):
        made(tmp_path, EU + "listen: {host: 0.0.0.0}")


# --- where to listen -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", Listen("127.0.0.1", 9797)),
        ("listen: {host: '[::1]', port: 0}", Listen("::1", 0)),
        (
            "listen: {tls: {cert_file: /c, key_file: /k, client_ca_file: /a}}",
            Listen("127.0.0.1", 9797, Path("/c"), Path("/k"), Path("/a")),
        ),
    ],
)
def test_listen(tmp_path: Path, text: str, where: Listen) -> None:
    """Host, port, certificates."""
    assert where == listening(loaded(tmp_path, EU + text).settings)


# --- history -------------------------------------------------------------------------------------


def lease_of(place: Path, text: str, environ: Mapping[str, str] | None = None) -> tuple[str, Lease | None]:
    history = history_of(
        loaded(place, EU + text), environ or {"HOME": str(place)}, clock=time.time, timer=time.monotonic
    )
    assert isinstance(history, History)
    history.close()
    return history.place, history._store.lease


def test_no_history(tmp_path: Path) -> None:
    """Where it is switched off."""
    off = history_of(loaded(tmp_path, EU + "history: {enabled: false}"), {}, clock=time.time, timer=time.monotonic)
    assert isinstance(off, NoHistory)
    assert "switched off" in off.reason


def test_no_place_for_the_history(tmp_path: Path) -> None:
    """Neither HOME nor XDG_STATE_HOME: diagnoses go on without it, and it is said."""
    off = history_of(loaded(tmp_path, EU), {}, clock=time.time, timer=time.monotonic)
    assert isinstance(off, NoHistory)
    assert "neither XDG_STATE_HOME nor HOME is set" in off.reason


def test_a_file_that_another_process_writes(tmp_path: Path) -> None:
    """The second one has no history, and says who has it; when the first one is gone it may."""
    made_ = loaded(tmp_path, EU + "history: {database: h.db}")
    first = history_of(made_, {}, clock=time.time, timer=time.monotonic)
    second = history_of(made_, {}, clock=time.time, timer=time.monotonic)
    assert isinstance(first, History)
    assert isinstance(second, NoHistory)
    assert f"another palanca (process {os.getpid()}) writes {tmp_path / 'h.db'}" in second.reason
    first.close()
    third = history_of(made_, {}, clock=time.time, timer=time.monotonic)
    assert isinstance(third, History)
    third.close()


def test_history_in_the_usual_place(tmp_path: Path) -> None:
    """A file of this process alone: no lease."""
    assert (f"{tmp_path}/.local/state/palanca/palanca.db", None) == lease_of(tmp_path, "")
    assert (f"{tmp_path}/s/palanca/palanca.db", None) == lease_of(tmp_path, "", {"XDG_STATE_HOME": f"{tmp_path}/s"})


def test_history_in_a_file(tmp_path: Path) -> None:
    """Relative to the settings."""
    assert (str(tmp_path / "h.db"), None) == lease_of(tmp_path, "history: {database: h.db}")


@pytest.mark.parametrize(("interval", "ttl"), [("30s", 90.0), ("5s", 60.0), ("2m", 360.0)])
def test_replicas_share_a_server(tmp_path: Path, interval: str, ttl: float) -> None:
    """By a lease that outlives two missed polls, and a name that no other process has."""
    text = f"interval: {interval}\nhistory: {{database: 'postgresql://u@db/palanca'}}"
    place, first = lease_of(tmp_path, text)
    _, second = lease_of(tmp_path, text)
    assert "postgresql://db/palanca" == place
    assert first is not None
    assert second is not None
    assert ("recorder", ttl) == (first.name, first.ttl_s)
    assert first.holder.startswith(f"{socket.gethostname()}:{os.getpid()}:")
    assert first.holder != second.holder


def test_database_of_a_file(tmp_path: Path) -> None:
    """Its URL has a password in it, which is used and not shown."""
    secret(tmp_path, "url", "postgresql://u:s3cret@db/palanca")
    history = history_of(
        loaded(tmp_path, EU + "history: {database_file: url}"), {}, clock=time.time, timer=time.monotonic
    )
    assert isinstance(history, History)
    assert "postgresql://db/palanca" == history.place
    assert "s3cret" == history._store._database.address.url.password


def test_retention(tmp_path: Path) -> None:
    """In seconds."""
    assert 90 * 86400 == made(tmp_path, EU).retention
    assert 86400 == made(tmp_path, EU + "history: {retention: 1d}").retention
