"""What a settings file says: frozen, unknown keys are errors, everything has a default.

The descriptions are those of the JSON Schema and of ``docs/settings.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from palanca.errors import UsageError
from palanca.model import Cause, RuleId, Severity, Spec
from palanca.render.template import check as check_template
from palanca.settings.scalars import (
    Address,
    Channel,
    Clock,
    Day,
    Digest,
    File,
    HeaderName,
    HeaderValue,
    Host,
    Interval,
    Label,
    Link,
    Name,
    Number,
    Patience,
    Retention,
    Store,
    Timeout,
    Url,
    Zone,
)

_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})


class Tls(Spec):
    """Certificates of the service itself."""

    cert_file: File = Field(description="Certificate of the service with its chain (PEM).")
    key_file: File = Field(description="Its key (PEM), without a password.")
    client_ca_file: File | None = Field(
        default=None, description="Authorities (PEM): clients must show a certificate of one of them."
    )


class Listen(Spec):
    """Where the service answers."""

    host: Host = Field(
        default="127.0.0.1",
        description="Address to listen on. Any other than loopback needs a token, or `auth.disabled`.",
    )
    port: int = Field(default=9797, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    tls: Tls | None = Field(default=None, description="HTTPS in place of HTTP.")


class Token(Spec):
    """One who may ask."""

    name: Name = Field(description="Name in logs and in the audit log; unique.")
    scope: Literal["read", "write"] = Field(
        default="read", description="`read`, or `write` (acknowledge, webhook), which includes `read`."
    )
    token_file: File = Field(description="File with the token: one line of at least 16 printable characters.")


class Auth(Spec):
    """Who may ask."""

    tokens: tuple[Token, ...] = Field(default=(), description="Bearer tokens that are accepted.")
    metrics: bool = Field(default=False, description="Whether `/metrics` needs a token as well.")
    disabled: bool = Field(default=False, description="Answer everybody, on any address (`--no-auth`).")


class SourceSettings(Spec):
    """One source of metrics: a Prometheus-compatible server, or vLLM servers to scrape."""

    name: Name = Field(description="Name in answers, logs and metrics; unique.")
    prometheus: Url | None = Field(
        default=None,
        description="A server with the Prometheus query API. Exactly one of `prometheus` and `scrape` is needed.",
    )
    scrape: tuple[Url, ...] = Field(default=(), description="vLLM servers to scrape.")
    labels: Mapping[Label, str] = Field(
        default_factory=dict,
        description="Labels for the targets that lack them. With several sources by default `cluster: NAME`.",
    )
    match: Mapping[Label, str] = Field(default_factory=dict, description="Only targets with all these labels.")
    bearer_file: File | None = Field(default=None, description="File with a bearer token for the source.")
    basic_file: File | None = Field(default=None, description="File with `user:password` for the source.")
    headers: Mapping[HeaderName, HeaderValue] = Field(
        default_factory=dict, description="HTTP headers that are no secrets, such as `X-Scope-OrgID`."
    )
    header_files: Mapping[HeaderName, File] = Field(
        default_factory=dict, description="HTTP headers with the files that hold their values."
    )
    ca_file: File | None = Field(default=None, description="Certificate authorities (PEM) in place of the system's.")
    client_cert: File | None = Field(default=None, description="Client certificate (PEM).")
    client_key: File | None = Field(default=None, description="Its key (PEM).")
    insecure: bool = Field(default=False, description="Do not check the certificate of the source.")
    timeout: Timeout = Field(default=30.0, description="Longest time for one question, retries included, 1s to 5m.")

    @field_validator("headers")
    @classmethod
    def _no_credentials(cls, headers: Mapping[str, object]) -> Mapping[str, object]:
        return _without_credentials(headers)

    @model_validator(mode="after")
    def _one_way(self) -> SourceSettings:
        if (self.prometheus is None) == (not self.scrape):
            raise ValueError("a source has either prometheus: URL or scrape: [URL, ...]")
        _one_credential(self)
        return self

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What is asked: the one Prometheus, or each server that is scraped."""
        return (self.prometheus,) if self.prometheus is not None else self.scrape


def _without_credentials(headers: Mapping[str, object]) -> Mapping[str, object]:
    for name in headers:
        if name.lower() in _CREDENTIALS:
            raise ValueError(f"{name} is a secret; use bearer_file, basic_file or header_files")
    return headers


def _one_credential(one: SourceSettings | Alertmanager) -> None:
    """Raises ``ValueError`` where a server is shown two credentials, or a part of one."""
    files = {name.lower() for name in one.header_files}
    shown = [what for what, given in (
        ("bearer_file", one.bearer_file is not None),
        ("basic_file", one.basic_file is not None),
        ("user:password in the URL", any(url.has_credentials for url in one.addresses)),
        ("Authorization in header_files", "authorization" in files),
    ) if given]  # fmt: skip
    if len(shown) > 1:
        raise ValueError(f"{' and '.join(shown)} exclude each other; keep one of them")
    twice = sorted(files & {name.lower() for name in one.headers})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands in headers and in header_files; keep one of them")
    if one.client_key is not None and one.client_cert is None:
        raise ValueError("client_key needs client_cert")


class Alertmanager(Spec):
    """The Alertmanagers that palanca pushes to and reads silences of."""

    urls: tuple[Url, ...] = Field(
        default=(), description="All of them, those of a cluster each by itself; one that is down is no loss."
    )
    push: bool = Field(
        default=True,
        description="Push alerts of the rules that no rule file of Prometheus can say, and keep them alive.",
    )
    silences: bool = Field(default=True, description="Read silences, and show them at the findings that they mute.")
    bearer_file: File | None = Field(default=None, description="File with a bearer token for them.")
    basic_file: File | None = Field(default=None, description="File with `user:password` for them.")
    headers: Mapping[HeaderName, HeaderValue] = Field(
        default_factory=dict, description="HTTP headers that are no secrets, such as `X-Scope-OrgID`."
    )
    header_files: Mapping[HeaderName, File] = Field(
        default_factory=dict, description="HTTP headers with the files that hold their values."
    )
    ca_file: File | None = Field(default=None, description="Certificate authorities (PEM) in place of the system's.")
    client_cert: File | None = Field(default=None, description="Client certificate (PEM).")
    client_key: File | None = Field(default=None, description="Its key (PEM).")
    insecure: bool = Field(default=False, description="Do not check their certificates.")
    timeout: Timeout = Field(default=10.0, description="Longest time for one request, 1s to 5m.")

    @field_validator("headers")
    @classmethod
    def _no_credentials(cls, headers: Mapping[str, object]) -> Mapping[str, object]:
        return _without_credentials(headers)

    @model_validator(mode="after")
    def _one_way(self) -> Alertmanager:
        shown = [url.shown for url in self.urls]
        twice = sorted({url for url in shown if shown.count(url) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} stands there twice; keep one of them")
        _one_credential(self)
        return self

    @property
    def addresses(self) -> tuple[Address, ...]:
        """What is asked."""
        return self.urls


class History(Spec):
    """Where findings are remembered."""

    enabled: bool = Field(default=True, description="Whether findings are remembered.")
    database: Store | None = Field(
        default=None,
        description="Path of a SQLite file, or a `postgresql://` URL. By default `palanca/palanca.db` in "
        "`$XDG_STATE_HOME` (`~/.local/state`).",
    )
    database_file: File | None = Field(
        default=None, description="File that holds the URL of the database, where it has a password in it."
    )
    retention: Retention = Field(default=90 * 86400.0, description="How long episodes are kept, 1h to 10 years.")

    @model_validator(mode="after")
    def _one_database(self) -> History:
        if self.database is not None and self.database_file is not None:
            raise ValueError("database and database_file exclude each other; keep one of them")
        return self


class Log(Spec):
    """What the service writes to stderr."""

    format: Literal["console", "json"] = Field(default="console", description="For people, or one JSON object a line.")
    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important message that is written: debug, info, warning, error."
    )


class ModelThresholds(Spec):
    """Thresholds in place of those of the rules, for some targets or for all."""

    match: Mapping[Label, str] = Field(
        default_factory=dict, description="Labels of the targets that are meant; without it all of them."
    )
    rules: Mapping[RuleId, Mapping[str, Number]] = Field(
        min_length=1, description="Rule, threshold and value, in the unit of the threshold (`palanca rules show ID`)."
    )


class TargetSettings(Spec):
    """What is known of the targets with these labels, and no metric shows."""

    match: Mapping[str, str] = Field(min_length=1, description="Labels that a target must have, all of them.")
    serve_args: str | None = Field(default=None, description="The arguments that `vllm serve` was started with.")
    gpu: str | None = Field(default=None, description="Kind of GPU, such as `h100-sxm` or `rtx-4090`.")
    gpus: int = Field(default=1, ge=1, description="GPUs of one engine.")
    config: File | None = Field(
        default=None, alias="model_config", description="The model's `config.json`, for the size of its weights."
    )
    weight_bytes: float | None = Field(default=None, gt=0, description="Size of the weights in bytes, if known.")
    slo: Mapping[str, Number] = Field(
        default_factory=dict, description="Objectives in seconds by name: `ttft_p99`, `itl_p99`, ..."
    )
    client: Mapping[str, Number] = Field(
        default_factory=dict, description="What clients see: `ttft_p99` in seconds, `concurrency` in requests."
    )


class QuietHours(Spec):
    """Hours in which people are not told."""

    begin: Clock = Field(alias="from", description="When they begin, as `22:00`.")
    end: Clock = Field(
        alias="to", description="When they end, as `07:00`; the next day where that is not after `from`."
    )
    zone: Zone = Field(default="UTC", description="Time zone, such as `Europe/Madrid`.")
    days: tuple[Day, ...] = Field(
        default=(), description="Days on which they begin: `mon` to `sun`; without it every day."
    )
    passes: tuple[Severity, ...] = Field(default=("critical",), description="Severities that are told even so.")

    @model_validator(mode="after")
    def _some_hours(self) -> QuietHours:
        if self.begin == self.end:
            raise ValueError("from and to are the same: nobody would ever be told; leave a route out, or to: []")
        return self


class NotifyRoute(Spec):
    """Which notices go to which receivers. The first route that fits decides."""

    match: Mapping[Label, str] = Field(
        default_factory=dict,
        description="Labels that must have these values: `model_name`, `namespace`, `cluster`, `job`.",
    )
    source: tuple[Name, ...] = Field(default=(), description="Only these sources.")
    severity: tuple[Severity, ...] = Field(default=("critical", "warning"), description="Only these severities.")
    cause: tuple[Cause, ...] = Field(default=(), description="Only these causes.")
    rule: tuple[RuleId, ...] = Field(default=(), description="Only these rules.")
    to: tuple[Name, ...] = Field(description="Receivers by their names; none: nobody is told.")
    quiet_hours: QuietHours | None = Field(default=None, description="Hours in which people are not told.")
    digest: Digest | None = Field(
        default=None, description="Tell together what has changed, every so often, 1m to 1d; without it each at once."
    )
    go_on: bool = Field(default=False, alias="continue", description="Ask the routes below too.")


class SlackReceiver(Spec):
    """A channel of Slack."""

    name: Name = Field(description="Name in routes, logs and metrics; unique among all receivers.")
    webhook_url_file: File | None = Field(
        default=None,
        description="File with the address of an incoming webhook, which is a secret. Exactly one of this and "
        "`token_file` is needed.",
    )
    token_file: File | None = Field(
        default=None, description="File with the token of a bot (`xoxb-...`): messages are updated in place."
    )
    channel: Channel | None = Field(default=None, description="Channel of the bot, best by its ID (`C0123456789`).")
    api_url: Url | None = Field(
        default=None, description="Address of Slack's API for the bot, where it is not `https://slack.com/api`."
    )
    ca_file: File | None = Field(default=None, description="Certificate authorities (PEM) in place of the system's.")

    @model_validator(mode="after")
    def _one_way(self) -> SlackReceiver:
        if (self.webhook_url_file is None) == (self.token_file is None):
            raise ValueError("a Slack receiver has either webhook_url_file, or token_file and channel")
        if (self.token_file is None) != (self.channel is None):
            raise ValueError("token_file and channel belong together; an incoming webhook has its own channel")
        if self.api_url is not None and self.token_file is None:
            raise ValueError("api_url is for a bot (token_file); the address of a webhook stands in its file")
        return self


class WebhookReceiver(Spec):
    """Any HTTP server that takes JSON."""

    name: Name = Field(description="Name in routes, logs and metrics; unique among all receivers.")
    url: Url | None = Field(default=None, description="Where to post. Exactly one of `url` and `url_file` is needed.")
    url_file: File | None = Field(default=None, description="File with the address, where it is a secret or has a `?`.")
    template: Mapping[str, JsonValue] | None = Field(
        default=None,
        description="The JSON to send, with placeholders such as `{title}` in its texts (docs/notify.md); without it "
        "all that is known.",
    )
    bearer_file: File | None = Field(default=None, description="File with a bearer token.")
    header_files: Mapping[HeaderName, File] = Field(
        default_factory=dict, description="HTTP headers with the files that hold their values."
    )
    hmac_file: File | None = Field(
        default=None, description="File with the secret that signs each message (`X-Palanca-Signature`)."
    )
    ca_file: File | None = Field(default=None, description="Certificate authorities (PEM) in place of the system's.")
    timeout: Patience = Field(default=10.0, description="Longest time for one message, 1s to 30s.")

    @field_validator("template")
    @classmethod
    def _placeholders(cls, template: Mapping[str, JsonValue] | None) -> Mapping[str, JsonValue] | None:
        if template is not None:
            try:
                check_template(template)
            except UsageError as error:
                raise ValueError(str(error)) from None
        return template

    @model_validator(mode="after")
    def _one_address(self) -> WebhookReceiver:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("a webhook has either url or url_file")
        if self.bearer_file is not None and "authorization" in {name.lower() for name in self.header_files}:
            raise ValueError("bearer_file and Authorization in header_files exclude each other; keep one of them")
        return self


class NotifyLinks(Spec):
    """Where the links in messages lead; palanca itself is at `external_url`."""

    dashboard: Link | None = Field(
        default=None, description="A Grafana dashboard; `var-job`, `var-model_name` and `var-instance` are added."
    )
    prometheus: Url | None = Field(default=None, description="A Prometheus for people, for links to its graphs.")
    alertmanager: Url | None = Field(default=None, description="An Alertmanager for people, for prefilled silences.")
    runbooks: Url | None = Field(
        default=None, description="Address before the id of a rule; without it `external_url` and `/rules`."
    )


class Notify(Spec):
    """Who is told, and how."""

    path: Literal["alertmanager", "direct"] = Field(
        default="alertmanager",
        description="`alertmanager`: Alertmanager decides what is told, and palanca enriches it (its webhook); "
        "`direct`: palanca tells what it finds by itself.",
    )
    slack: tuple[SlackReceiver, ...] = Field(default=(), description="Channels of Slack.")
    webhooks: tuple[WebhookReceiver, ...] = Field(default=(), description="HTTP servers that take JSON.")
    routes: tuple[NotifyRoute, ...] = Field(
        default=(),
        description="Which notices go where; without routes critical ones and warnings go to all receivers.",
    )
    links: NotifyLinks = Field(default=NotifyLinks(), description="Where the links in messages lead.")

    @property
    def names(self) -> tuple[str, ...]:
        """All receivers."""
        return (*(one.name for one in self.slack), *(one.name for one in self.webhooks))


class Settings(Spec):
    """All settings of palanca."""

    interval: Interval = Field(default=30.0, description="How often each source is polled, 5s to 1h.")
    external_url: Url | None = Field(
        default=None, description="Where people reach the service; links in notifications and alerts begin with it."
    )
    listen: Listen = Field(default=Listen(), description="Where the service answers.")
    auth: Auth = Field(default=Auth(), description="Who may ask.")
    sources: tuple[SourceSettings, ...] = Field(default=(), description="Where metrics come from: one or many.")
    alertmanager: Alertmanager = Field(
        default=Alertmanager(), description="Alertmanagers to push to and to read silences of."
    )
    history: History = Field(default=History(), description="Where findings are remembered.")
    notify: Notify = Field(default=Notify(), description="Who is told, and how.")
    log: Log = Field(default=Log(), description="What the service writes to stderr.")
    rules: File | None = Field(
        default=None, description="Folder of rules that add to or replace the shipped ones (`--rules`)."
    )
    thresholds: tuple[ModelThresholds, ...] = Field(
        default=(), description="Thresholds per model; of several that fit a target the later one wins."
    )
    targets: tuple[TargetSettings, ...] = Field(
        default=(), description="What is known of the targets; of several that fit a target the later one wins."
    )

    @field_validator("external_url")
    @classmethod
    def _public(cls, url: Address | None) -> Address | None:
        if url is not None and url.has_credentials:
            raise ValueError("this URL is shown to people: no user and password in it")
        return url
