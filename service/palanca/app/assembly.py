"""Settings become what runs: sources, watches, tokens, the history."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from palanca.alerting.matrix import not_exportable
from palanca.alerting.options import Options
from palanca.api.access import Token, Tokens
from palanca.api.guard import Rules, own_hosts
from palanca.app.alertmanagers import LARGEST_ANSWER, Contacts
from palanca.app.server import Listen
from palanca.app.service import Plan
from palanca.app.telling import telling
from palanca.daemon.fleet import with_labels
from palanca.daemon.watch import Duty, PolledSource, Watch
from palanca.dashboards.options import Options as Boards
from palanca.errors import HistoryError, SourceError, UsageError
from palanca.history.address import default_path
from palanca.history.disabled import NoHistory
from palanca.history.facade import History
from palanca.history.leases import Lease
from palanca.history.lock import FileLock
from palanca.history.store import HistoryStore
from palanca.logs import logger
from palanca.poll import Question
from palanca.settings import check_binding, check_routes, is_loopback, knowledge, matrix, read_secrets
from palanca.settings.alerts import with_settings
from palanca.settings.dashboards import with_settings as with_boards
from palanca.sources.prometheus import Prometheus
from palanca.sources.scrape import ScrapeSource
from palanca.sources.server import PrometheusSource
from palanca.sources.session import Access

if TYPE_CHECKING:
    from palanca.model import Catalogue, Target
    from palanca.settings import Alertmanager, Effective, Secrets, Settings, SourceSecrets, SourceSettings

R = TypeVar("R")
Clock = Callable[[], float]

SCRAPE_WAIT_S = 15.0
"""How long servers that palanca scrapes itself are watched before the first diagnosis."""
RECORDER = "recorder"
LEASE_POLLS = 3
SHORTEST_LEASE_S = 60.0


def plan(made: Effective, *, clock: Clock, timer: Clock) -> Plan:
    """Make what can be replaced while the service runs; reads the secrets. Raises ``RuleFileError``, ``UsageError``."""
    settings, secrets = made.settings, read_secrets(made)
    check_binding(settings)
    for warning in secrets.warnings:
        logger("settings").warning(warning)
    if not settings.sources:
        raise UsageError("nothing to watch: give --prometheus URL or --scrape URL, or sources in the settings")
    catalogue, hardware = matrix(settings.rules)
    known = knowledge(made, catalogue, hardware)
    check_routes(made, catalogue)

    def watch(one: SourceSettings) -> Watch:
        labels = dict(one.labels)
        question = Question(
            matchers=dict(one.match),
            settings=_of_labelled(known.facts, labels),
            thresholds=_of_labelled(known.thresholds, labels),
        )
        access = _access(one, secrets.sources[one.name])
        return Watch(
            _duty(one, access, catalogue, question, settings.interval, clock), catalogue, clock=clock, timer=timer
        )

    alerts = with_settings(Options(), settings)
    watches = tuple(watch(one) for one in settings.sources)
    return Plan(
        catalogue,
        watches,
        admission(settings, secrets),
        settings.history.retention,
        alerts,
        contacts(settings, secrets, catalogue, alerts),
        telling(settings, secrets, catalogue),
        with_boards(Boards(), settings),
        known,
        hardware,
    )


def contacts(settings: Settings, secrets: Secrets, catalogue: Catalogue, alerts: Options) -> Contacts:
    """Say which Alertmanagers there are, and which rules are pushed: those that no rule file can say."""
    told = settings.alertmanager
    access = replace(_access(told, secrets.alertmanager), attempts=1, max_bytes=LARGEST_ANSWER)
    external = None if settings.external_url is None else str(settings.external_url)
    return Contacts(
        access={url.full.get_secret_value(): access for url in told.urls},
        rules=frozenset(not_exportable(catalogue, alerts)) if told.urls and told.push else frozenset(),
        silences=told.silences,
        external_url=external,
    )


def _of_labelled(known: Callable[[Target], R] | None, labels: Mapping[str, str]) -> Callable[[Target], R] | None:
    """Let what the settings say of targets see the labels that the source adds."""
    return None if known is None else lambda target: known(with_labels(target, labels))


def _duty(
    one: SourceSettings, access: Access, catalogue: Catalogue, question: Question, interval: float, clock: Clock
) -> Duty:
    if one.prometheus is not None:
        client = Prometheus(one.prometheus.full.get_secret_value(), access)
        server: PolledSource = PrometheusSource(client, clock=clock)
        return Duty(one.name, server, question, interval, windowed=True, labels=dict(one.labels))
    scraped = scraping([url.full.get_secret_value() for url in one.scrape], access, clock)
    return Duty(
        one.name,
        scraped,
        question,
        interval,
        windowed=False,
        labels=dict(one.labels),
        fill=lambda: scraped.scrape(catalogue),
        take_over=lambda before: scraped.take_over(before) if isinstance(before, ScrapeSource) else None,
    )


def scraping(urls: list[str], access: Access, clock: Clock) -> ScrapeSource:
    """Make a source that scrapes, and whose waiting ends when it is stopped."""
    stopped = threading.Event()

    def sleep(seconds: float) -> None:
        if stopped.wait(seconds):
            raise SourceError("not scraped, since palanca is stopping")

    return ScrapeSource(urls, access, wait=SCRAPE_WAIT_S, clock=clock, sleep=sleep, wake=stopped.set)


def _access(one: SourceSettings | Alertmanager, secrets: SourceSecrets) -> Access:
    user, password = secrets.basic or ("", None)
    return Access(
        headers={name: value.get_secret_value() for name, value in secrets.headers.items()},
        bearer=secrets.bearer.get_secret_value() if secrets.bearer else None,
        basic=(user, password.get_secret_value()) if password else None,
        ca_file=one.ca_file,
        client_cert=one.client_cert,
        client_key=one.client_key,
        insecure=one.insecure,
        timeout=one.timeout,
    )


def admission(settings: Settings, secrets: Secrets) -> Rules:
    """Say who is let in. Where nobody needs a token, only names of this machine are answered on loopback."""
    auth, host = settings.auth, settings.listen.host
    if auth.tokens and not auth.disabled:
        tokens = [Token(one.name, one.scope, one.value.get_secret_value()) for one in secrets.tokens]
        return Rules(Tokens(tokens), metrics=auth.metrics)
    external = None if settings.external_url is None else str(settings.external_url)
    return Rules(hosts=own_hosts(host, external) if is_loopback(host) else None)


def listening(settings: Settings) -> Listen:
    """Say where to listen."""
    tls = settings.listen.tls
    return Listen(
        settings.listen.host.strip("[]"),
        settings.listen.port,
        cert=tls.cert_file if tls else None,
        key=tls.key_file if tls else None,
        client_ca=tls.client_ca_file if tls else None,
    )


def history_of(made: Effective, environ: Mapping[str, str], *, clock: Clock, timer: Clock) -> History | NoHistory:
    """Make the history, not yet opened; where there can be none, what says why.

    Several replicas can share a server by a lease, but not a file: that is locked, until the process ends.
    Raises ``RuleFileError`` and ``UsageError`` for settings that are wrong.
    """
    settings = made.settings
    if not settings.history.enabled:
        return NoHistory()
    database = read_secrets(made).database
    if database is not None and database.url is not None:
        holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        lease = Lease(RECORDER, holder, max(LEASE_POLLS * settings.interval, SHORTEST_LEASE_S))
        return History(HistoryStore(database.url.get_secret_value(), lease=lease), clock, timer)
    try:
        path = database.path if database is not None and database.path is not None else default_path(environ)
        lock = FileLock(path.expanduser().absolute())
    except (HistoryError, UsageError) as error:
        return NoHistory(str(error))
    return History(HistoryStore(path), clock, timer, release=lock.release)
