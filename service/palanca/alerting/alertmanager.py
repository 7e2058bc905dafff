"""The configuration of Alertmanager for the exported alerts, and templates for receivers other than palanca. Pure.

Everything in it is known to Alertmanager 0.25. What a later release brought stands in the examples only, which are
comments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from palanca import __version__
from palanca.alerting import names, text
from palanca.errors import UsageError
from palanca.model import SEVERITY_ORDER
from palanca.moments import duration
from palanca.releases import Release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from palanca.model import Catalogue, Rule, Severity

OLDEST = Release("0.25")
TEAMS, TEAMS_FILE, TEAMS_WORKFLOWS = Release("0.26"), Release("0.27"), Release("0.28")
"""Releases of Alertmanager with a receiver for Teams, with its URL in a file, and with the one that Teams kept."""

WEBHOOK_PATH = "/api/v1/alertmanager"
DEFAULT_BASE = "http://127.0.0.1:9797"
TEMPLATES = "palanca.tmpl"
PALANCA, DIRECT, WATCHDOG = "palanca", "direct", "watchdog"
"""Receivers: palanca enriches; what must arrive without it; what complains when nothing comes any more."""

ENGINE_LABELS = ("cluster", "namespace", "job", "instance", "model_name", "engine", "ReplicaId")
"""Labels that tell engines apart. Alertmanager takes one that both alerts lack as equal."""
MOST_ALERTS = 100
"""Of one notification: palanca takes a megabyte, and needs no more than a few of each group to say what is wrong."""

CRITICAL_WAIT_S, CRITICAL_REPEAT_S = 10.0, 3600.0
SLOW_WAIT_S, SLOW_INTERVAL_S, SLOW_REPEAT_S = 300.0, 1800.0, 86400.0
CONFIGURATION_REPEAT_S = 4 * 86400.0
"""Alertmanager forgets after 120 h by default what it has told, and then tells it again."""
HEARTBEAT_S = 60.0
LONGEST_S = CONFIGURATION_REPEAT_S

_LOUD: Mapping[Severity, Sequence[Severity]] = {
    severity: SEVERITY_ORDER[SEVERITY_ORDER.index(severity) :] for severity in SEVERITY_ORDER
}
"""Severities that an alert may mute: its own and lesser ones."""


@dataclass(frozen=True)
class Routing:
    """What a user can choose about the configuration. Times in seconds. Raises ``UsageError``.

    ``receiver_url`` is where palanca takes alerts; by default it is made of ``external_url``. ``credentials_file`` is
    read by Alertmanager and holds palanca's token; empty where palanca asks for none. ``deadman_url`` is told every
    minute that alerts are evaluated. ``identity`` are labels that tell engines apart beside ``ENGINE_LABELS``.
    """

    release: Release = OLDEST
    external_url: str | None = None
    receiver_url: str | None = None
    credentials_file: str = "/etc/alertmanager/palanca.token"
    group_wait: float = 30.0
    group_interval: float = 300.0
    repeat_interval: float = 4 * 3600.0
    deadman_url: str | None = None
    identity: tuple[str, ...] = ()
    alert_prefix: str = names.PREFIX

    def __post_init__(self) -> None:
        """Refuse what Alertmanager would refuse."""
        if self.release < OLDEST:
            raise UsageError(f"--alertmanager {self.release}: {OLDEST} is the oldest release that this is written for")
        for option, url in (("--receiver-url", self.receiver), ("--deadman-url", self.deadman_url)):
            if url is not None and not _is_url(url):
                raise UsageError(f"{option} {url!r}: give an URL such as http://palanca:9797{WEBHOOK_PATH}")
        for option, value, least in (
            ("--group-wait", self.group_wait, 0.0),
            ("--group-interval", self.group_interval, 1.0),
            ("--repeat-interval", self.repeat_interval, 1.0),
        ):
            if not least <= value <= LONGEST_S or round(value) != value:
                longest = duration(LONGEST_S)
                raise UsageError(f"{option} {value:g} s: give whole seconds from {duration(least)} to {longest}")
        if self.repeat_interval < self.group_interval:
            raise UsageError(
                f"--repeat-interval {duration(self.repeat_interval)} is shorter than --group-interval "
                f"{duration(self.group_interval)}; Alertmanager looks at a group once in a group interval"
            )
        for label in self.identity:
            if not label.isidentifier() or not label.isascii() or label.startswith("__"):
                raise UsageError(f"--identity {label!r} is not a label name; use letters, digits and underscores")
        if any(not char.isprintable() for char in self.credentials_file):
            raise UsageError("--credentials-file must be text in one line")

    @property
    def receiver(self) -> str:
        """Where palanca takes alerts."""
        if self.receiver_url is not None:
            return self.receiver_url
        return (self.external_url or DEFAULT_BASE).rstrip("/") + WEBHOOK_PATH

    @property
    def engine(self) -> list[str]:
        """Labels that tell engines apart."""
        return list(dict.fromkeys((*ENGINE_LABELS, *self.identity)))


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and url.isprintable() and " " not in url


def parse_release(written: str) -> Release:
    """Read ``0.25`` or ``0.28.1``. Raises ``UsageError``."""
    try:
        release = Release(written.strip())
        _ = release.key
    except ValueError:
        raise UsageError(f"--alertmanager {written!r} is no release; write it as --alertmanager 0.25") from None
    return release


def alertmanager(catalogue: Catalogue, routing: Routing) -> str:
    """Write ``alertmanager.yaml``."""
    head = text.document(
        {"global": {"resolve_timeout": "5m"}, "templates": [TEMPLATES]},
        [
            "",
            f"Configuration of Alertmanager {routing.release} and newer. {TEMPLATES} lies beside it.",
            "To add it to a configuration of your own: its routes below yours, with the matcher",
            f'{names.CAUSE}=~".+" before them, its receivers and inhibit_rules beside yours.',
        ],
    )
    return "\n".join(
        [
            head,
            _section({"route": _route(routing)}),
            _said("An alert that explains others mutes them: for the same engine, and rules that compare the engines",
                  "of a model for that model. None mutes one that is more severe, nor the burn rates of objectives.")
            + _section({"inhibit_rules": inhibitions(catalogue, routing)}),
            _section({"receivers": [_palanca(routing)]}) + _direct(routing) + _watchdog(routing),
        ]
    )  # fmt: skip


def _section(content: Mapping[str, object]) -> str:
    """YAML without the header of a file."""
    return text.document(content).partition("\n")[2]


def _said(*lines: str, indent: str = "") -> str:
    return "".join(f"{indent}# {line}".rstrip() + "\n" for line in lines)


def _is(label: str, *values: str) -> str:
    """A matcher; ids and words have no character that means anything in a regular expression."""
    if len(values) == 1:
        return f'{label}="{values[0]}"'
    return f'{label}=~"{"|".join(values)}"'


# --- routes ----------------------------------------------------------------------------------------------------------


def _route(routing: Routing) -> dict[str, object]:
    critical = {
        "group_wait": duration(min(routing.group_wait, CRITICAL_WAIT_S)),
        "repeat_interval": duration(max(min(routing.repeat_interval, CRITICAL_REPEAT_S), routing.group_interval)),
    }
    slow_interval = max(routing.group_interval, SLOW_INTERVAL_S)
    slow = {
        "group_wait": duration(max(routing.group_wait, SLOW_WAIT_S)),
        "group_interval": duration(slow_interval),
    }
    return {
        "receiver": PALANCA,
        "group_by": ["alertname", *names.SCOPE],
        "group_wait": duration(routing.group_wait),
        "group_interval": duration(routing.group_interval),
        "repeat_interval": duration(routing.repeat_interval),
        "routes": [
            {
                "receiver": WATCHDOG,
                "matchers": [_is("alertname", names.WATCHDOG)],
                "group_by": ["alertname"],
                "group_wait": "0s",
                "group_interval": duration(HEARTBEAT_S),
                "repeat_interval": duration(HEARTBEAT_S),
            },
            {
                "receiver": DIRECT,
                "matchers": [_is("alertname", names.PALANCA_DOWN, names.PALANCA_STALE)],
                "continue": True,
            },
            {"matchers": [_is("alertname", names.PALANCA_DOWN, names.PALANCA_STALE)]},
            {"matchers": [_is(names.SEVERITY, "critical")], **critical},
            {
                "matchers": [_is(names.CAUSE, "configuration")],
                **slow,
                "repeat_interval": duration(max(routing.repeat_interval, CONFIGURATION_REPEAT_S)),
            },
            {
                "matchers": [_is(names.SEVERITY, "info")],
                **slow,
                "repeat_interval": duration(max(routing.repeat_interval, SLOW_REPEAT_S, slow_interval)),
            },
        ],
    }


# --- inhibition ------------------------------------------------------------------------------------------------------


def inhibitions(catalogue: Catalogue, routing: Routing) -> list[dict[str, object]]:
    """Say which alerts mute which, in the order of the rules: ``explains``, and what a critical one of a cause covers.

    The severity of an alert is fixed where it is written, while a finding of the engines of a model is at least as
    severe as what it explains; so that no page is lost, an alert mutes what is at most as severe as itself.
    """
    made = [
        _inhibition(rule.id, rule.explains, _LOUD[rule.severity], _equal(rule, routing))
        for rule in catalogue.rules
        if rule.explains and not rule.symptom
    ]
    for rule in catalogue.rules:
        lesser = [other.id for other in catalogue.rules if _covers(rule, other)]
        if lesser:
            made.append(_inhibition(rule.id, lesser, _LOUD[rule.severity][1:], _equal(rule, routing)))
    return made


def _covers(rule: Rule, other: Rule) -> bool:
    """Whether a critical rule says all that another one of the same cause says."""
    return (
        rule.severity == "critical"
        and rule.id != other.id
        and other.severity != "critical"
        and rule.cause is not None
        and rule.cause == other.cause
        and bool(other.explains)
        and set(other.explains) <= set(rule.explains)
    )


def _equal(rule: Rule, routing: Routing) -> list[str]:
    return list(names.SCOPE) if rule.scope == "model" else routing.engine


def _inhibition(
    source: str, targets: Iterable[str], severities: Sequence[Severity], equal: Sequence[str]
) -> dict[str, object]:
    return {
        "source_matchers": [_is(names.RULE, source)],
        "target_matchers": [
            _is(names.RULE, *targets), _is(names.SEVERITY, *severities), f'{names.OBJECTIVE}=""',
        ],
        "equal": list(equal),
    }  # fmt: skip


# --- receivers -------------------------------------------------------------------------------------------------------


def _palanca(routing: Routing) -> dict[str, object]:
    webhook: dict[str, object] = {"url": routing.receiver, "send_resolved": True, "max_alerts": MOST_ALERTS}
    if routing.credentials_file:
        credentials = {"type": "Bearer", "credentials_file": routing.credentials_file}
        webhook["http_config"] = {"authorization": credentials}
    return {"name": PALANCA, "webhook_configs": [webhook]}


_BODY = """\
slack_configs:
  - api_url_file: /etc/alertmanager/slack.url
    channel: "#vllm"
    send_resolved: true
    title: '{{ template "palanca.title" . }}'
    title_link: '{{ template "palanca.diagnose" . }}'
    text: '{{ template "palanca.text" . }}'
    color: '{{ template "palanca.color" . }}'
pagerduty_configs:
  - routing_key_file: /etc/alertmanager/pagerduty.key
    send_resolved: true
    severity: '{{ template "palanca.severity" . }}'
    description: '{{ template "palanca.title" . }}'
    details: {text: '{{ template "palanca.text" . }}'}
email_configs:
  - to: oncall@example.org
    from: alertmanager@example.org
    smarthost: smtp.example.org:587
    auth_username: alertmanager
    auth_password_file: /etc/alertmanager/smtp.password
    send_resolved: true
    headers: {Subject: '{{ template "palanca.title" . }}'}
    text: '{{ template "palanca.text" . }}'
    html: ""
"""
_TEAMS = """\
{kind}:
  - {url}
    send_resolved: true
    title: '{{{{ template "palanca.title" . }}}}'
    text: '{{{{ template "palanca.text" . }}}}'
"""
_DEADMAN = """\
webhook_configs:
  - url: https://deadman.example.org/ping/ID
    send_resolved: false
"""


def examples(routing: Routing) -> str:
    """YAML of receivers beside palanca, for those who take the comment signs away."""
    return _BODY + _teams(routing.release)


def _teams(release: Release) -> str:
    if release < TEAMS:
        return ""
    file = "webhook_url_file: /etc/alertmanager/teams.url"
    if release >= TEAMS_WORKFLOWS:
        return _TEAMS.format(kind="msteamsv2_configs", url=file)
    return _TEAMS.format(kind="msteams_configs", url=file if release >= TEAMS_FILE else "webhook_url: https://...")


def _direct(routing: Routing) -> str:
    lines = ["What must arrive without palanca: that it is down, or that what it says is old. Nobody is told as long",
             f"as all of this is comments. To send more here, name {DIRECT} in the routes above."]  # fmt: skip
    teams = [] if routing.release >= TEAMS else [f"Teams needs Alertmanager {TEAMS_WORKFLOWS} (--alertmanager)."]
    return (
        f"  - name: {DIRECT}\n"
        + _said(*lines, *teams, indent="    ")
        + _said(*examples(routing).splitlines(), indent="    ")
    )


def _watchdog(routing: Routing) -> str:
    lines = f"Told every {duration(HEARTBEAT_S)} that alerts are evaluated and sent; it complains when that ends."
    if routing.deadman_url is None:
        shown = _said(*_DEADMAN.splitlines(), indent="    ")
    else:
        body = _section({"webhook_configs": [{"url": routing.deadman_url, "send_resolved": False}]})
        shown = "".join(f"    {line}\n" for line in body.splitlines())
    return f"  - name: {WATCHDOG}\n" + _said(lines, indent="    ") + shown


# --- templates -------------------------------------------------------------------------------------------------------

_TEMPLATES = r"""
{{/* One line: state, how many, what. */}}
{{ define "palanca.title" -}}
[{{ .Status | toUpper }}{{ if eq .Status "firing" }}:{{ .Alerts.Firing | len }}{{ end }}] {{ "" }}
{{- template "palanca.what" . }}
{{- with .CommonLabels.model_name }} ({{ . }}){{ end }}
{{- end }}

{{ define "palanca.what" -}}
{{ with .CommonAnnotations.summary }}{{ . }}{{ else }}
{{- with .CommonLabels.alertname }}{{ . }}{{ else }}several alerts{{ end }}{{ end }}
{{- end }}

{{/* Each alert with where and why, then the links. */}}
{{ define "palanca.text" -}}
{{ range .Alerts.Firing }}{{ template "palanca.alert" . }}
{{ end }}
{{- if .Alerts.Resolved }}Resolved:
{{ range .Alerts.Resolved }}{{ template "palanca.alert" . }}
{{ end }}{{ end }}
{{- with .CommonAnnotations.runbook_url }}Runbook: {{ . }}
{{ end }}
{{- with .CommonAnnotations.dashboard_url }}Dashboard: {{ . }}
{{ end -}}
Diagnosis: {{ template "palanca.diagnose" . }}
Silence: {{ template "palanca.silence" . }}
{{- end }}

{{ define "palanca.alert" -}}
- {{ with .Labels.instance }}{{ . }}{{ else }}{{ with .Labels.job }}{{ . }}{{ else }}everywhere{{ end }}{{ end }}
{{- with .Labels.engine }}, engine {{ . }}{{ end }}
{{- with .Annotations.description }}: {{ . }}{{ end }}
{{- end }}

{{/* Where palanca says which flag to change. */}}
{{ define "palanca.diagnose" -}}
{{ with .CommonAnnotations.diagnose_url }}{{ . }}{{ else }}{{ range $at, $one := .Alerts }}{{ if eq $at 0 }}
{{- $one.Annotations.diagnose_url }}{{ end }}{{ end }}{{ end }}
{{- end }}

{{/* A form of Alertmanager that silences what the alerts have in common. */}}
{{ define "palanca.silence" -}}
{{ .ExternalURL }}/#/silences/new?filter=%7B
{{- range $at, $one := .CommonLabels.SortedPairs }}{{ if $at }}%2C{{ end }}{{ $one.Name }}%3D
{{- printf "%q" $one.Value | urlquery | reReplaceAll "\\+" "%20" }}{{ end }}%7D
{{- end }}

{{ define "palanca.severity" -}}
{{ if match "^(critical|warning|info)$" .CommonLabels.severity }}{{ .CommonLabels.severity }}{{ else }}error{{ end }}
{{- end }}

{{ define "palanca.color" -}}
{{ if eq .Status "resolved" }}good{{ else if eq .CommonLabels.severity "critical" }}danger
{{- else if eq .CommonLabels.severity "info" }}#439fe0{{ else }}warning{{ end }}
{{- end }}
"""


def templates() -> str:
    """Write ``palanca.tmpl``: texts for receivers other than palanca."""
    return f"{{{{/* generated by palanca {__version__}, do not edit */}}}}\n" + _TEMPLATES
