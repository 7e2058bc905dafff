"""The configuration of Alertmanager for the exported alerts. Pure.

Everything in it is known to Alertmanager 0.25. What a later release brought stands in the examples only, which are
comments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palanca.alerting import names, text
from palanca.alerting.routing import LONGEST_S
from palanca.model import SEVERITY_ORDER
from palanca.moments import duration
from palanca.releases import Release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from palanca.alerting.routing import Routing
    from palanca.model import Catalogue, Rule, Severity

TEAMS, TEAMS_FILE, TEAMS_WORKFLOWS = Release("0.26"), Release("0.27"), Release("0.28")
"""Releases of Alertmanager with a receiver for Teams, with its URL in a file, and with the one that Teams kept."""

TEMPLATES = "palanca.tmpl"
PALANCA, DIRECT, WATCHDOG = "palanca", "direct", "watchdog"
"""Receivers: palanca enriches; what must arrive without it; what complains when nothing comes any more."""

MOST_ALERTS = 100
"""Of one notification: palanca takes a megabyte, and needs no more than a few of each group to say what is wrong."""

CRITICAL_WAIT_S, CRITICAL_REPEAT_S = 10.0, 3600.0
SLOW_WAIT_S, SLOW_INTERVAL_S, SLOW_REPEAT_S = 300.0, 1800.0, 86400.0
CONFIGURATION_REPEAT_S = LONGEST_S
HEARTBEAT_S = 60.0

_LOUD: Mapping[Severity, Sequence[Severity]] = {
    severity: SEVERITY_ORDER[SEVERITY_ORDER.index(severity) :] for severity in SEVERITY_ORDER
}
"""Severities that an alert may mute: its own and lesser ones."""


def alertmanager(catalogue: Catalogue, routing: Routing, alert_prefix: str = names.PREFIX) -> str:
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
            + _section({"inhibit_rules": [*inhibitions(catalogue, routing), *_guards(alert_prefix)]}),
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


def _guards(prefix: str) -> list[dict[str, object]]:
    """A model or job that is down says it of its servers; a rule tells more than the guard that outlives it."""

    def guard(name: str) -> str:
        return _is("alertname", names.alert_name(name, prefix))

    every = (
        (guard(names.MODEL_DOWN), names.TARGET_DOWN, names.SCOPE),
        (guard(names.JOB_DOWN), names.TARGET_NEVER_UP, names.JOB_JOIN),
        (_is(names.RULE, "metrics-missing"), names.SERIES_MISSING, names.SERVER_JOIN),
    )
    return [
        {"source_matchers": [source], "target_matchers": [guard(target)], "equal": list(equal)}
        for source, target, equal in every
    ]


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
