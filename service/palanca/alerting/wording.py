"""Annotations of alerts: a fixed summary, a description from the rule's sentence, and links."""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING

from palanca.addresses import ENGINE, FLEET, RULES
from palanca.alerting import names
from palanca.quantities import number
from palanca.units import Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palanca.alerting.options import Options
    from palanca.model import Catalogue, Rule

_AT = (
    '{{ $at := printf "' + ",".join(f"{label}=%q" for label in names.IDENTITY) + '" '
    + " ".join(f"$labels.{label}" for label in names.IDENTITY) + " }}"
)  # fmt: skip
_HERE = {"model": "model_name", "instance": "instance"}
"""Parameters of ``/diagnose`` and the labels that they are."""
UNKNOWN = "(unknown)"


def named(summary: str) -> tuple[str, ...]:
    """Signals, facts and thresholds in the braces of a summary."""
    return tuple(field for _, field, _, _ in Formatter().parse(summary) if field)


def plain(text: str) -> str:
    """A text that no template changes."""
    return text.replace("{{", '{{ "{{" }}')


def sentence(
    rule: Rule, catalogue: Catalogue, values: Mapping[str, float], series: Callable[[str], str | None], shown: str
) -> str:
    """Write a rule's summary as a template.

    ``values`` are objectives and thresholds; ``series`` gives the recorded series of a signal, None without one.
    ``shown`` is the signal that the alert's value is; the others are asked for when the alert is active.
    """
    parts, asked, said = [], False, ""
    for text, name, _, _ in Formatter().parse(rule.summary):
        said += text
        if not name:
            continue
        parts.append(plain(said))
        said = ""
        if name in values:
            parts.append(number(values[name], _unit(name, rule, catalogue)))
        elif name in catalogue.signals and (recorded := series(name)) is not None:
            unit = catalogue.signals[name].unit
            if name == shown:
                parts.append(f"{{{{ $value {_written(unit)} }}}}{_word(unit)}")
                continue
            asked = True
            query = f'{{{{ with printf "{recorded}{{%s}}" $at | query }}}}'
            value = f"{{{{ . | first | value {_written(unit)} }}}}{_word(unit)}"
            parts.append(f"{query}{value}{{{{ else }}}}{UNKNOWN}{{{{ end }}}}")
        else:
            parts.append(UNKNOWN)
    return (_AT if asked else "") + "".join([*parts, plain(said)])


def labels(options: Options) -> dict[str, str]:
    """The labels that a user wants on every alert."""
    return {name: plain(value) for name, value in sorted(options.labels.items())}


def _unit(name: str, rule: Rule, catalogue: Catalogue) -> str:
    return rule.thresholds[name].unit if name in rule.thresholds else catalogue.facts[name].unit


def _written(unit: str) -> str:
    if unit == "s":
        return "| humanizeDuration"
    if unit == "bytes":
        return "| humanize1024"
    return '| printf "%.2g"' if Unit.parse(unit) == Unit() else "| humanize"


def _word(unit: str) -> str:
    """The unit behind a number; durations and bytes have theirs already, ratios have none."""
    if unit == "s" or Unit.parse(unit) == Unit():
        return ""
    above, slash, below = Unit.parse(unit).plural.partition("/")
    words = "" if above == "1" else f" {above}"
    return f"{words}{slash}{below}"


def links(rule_id: str | None, options: Options, *, labelled: bool = True) -> dict[str, str]:
    """Links to the runbook of a rule, the dashboard and the diagnosis; those that no URL was given for are left out.

    ``labelled`` says whether the alert has the labels of an engine.
    """
    made: dict[str, str] = {}
    here = "&".join(f"{name}={{{{ $labels.{label} | urlquery }}}}" for name, label in _HERE.items()) if labelled else ""
    base = options.external_url.rstrip("/") if options.external_url else None
    if base and rule_id is not None:
        made[names.RUNBOOK_URL] = f"{base}{RULES}/{rule_id}"
    if options.dashboard_url:
        variables = "&".join(
            f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in ("job", "model_name", "instance")
        )
        joint = "&" if "?" in options.dashboard_url else "?"
        made[names.DASHBOARD_URL] = options.dashboard_url + (f"{joint}{variables}" if labelled else "")
    if base:
        made[names.DIAGNOSE_URL] = base + (f"{ENGINE}?{here}" if here else FLEET)
    return made
