"""What a settings file says: frozen, unknown keys are errors, everything has a default.

The descriptions are those of the JSON Schema and of ``docs/settings.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from palanca.model import RuleId, Spec
from palanca.settings.scalars import (
    Address,
    File,
    HeaderName,
    HeaderValue,
    Host,
    Interval,
    Label,
    Name,
    Number,
    Retention,
    Store,
    Timeout,
    Url,
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
