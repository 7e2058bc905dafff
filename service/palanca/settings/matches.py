"""What of the labels of ``match`` cannot be meant: labels and values that no target can have.

Only what is known for sure: which labels targets have is known where a source selects by them or gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, get_args

from palanca.alerting import names
from palanca.expressions import nearest
from palanca.model import SCOPE_LABELS, SEVERITY_ORDER, Cause
from palanca.signals.identity import COPY_LABELS, PROCESS_LABEL

if TYPE_CHECKING:
    from palanca.loader import Keys
    from palanca.settings.load import Effective
    from palanca.settings.spec import SourceSettings

_CLOSED: Mapping[str, tuple[str, ...]] = {names.SEVERITY: SEVERITY_ORDER, names.CAUSE: get_args(Cause)}
_USUAL = dict.fromkeys((*SCOPE_LABELS, "instance", "engine"))
_KEYS = {"alertname": "rule", names.RULE: "rule", names.SEVERITY: "severity", names.CAUSE: "cause"}
"""Labels of alerts that are no labels of engines, and what a route asks instead."""


def odd_matches(made: Effective) -> Iterator[str]:
    """Warn of labels and values that nothing has, with their places."""
    settings = made.settings
    known = _Known(made)
    entries = {
        "thresholds": [entry.match for entry in settings.thresholds],
        "targets": [entry.match for entry in settings.targets],
    }
    for section, matches in entries.items():
        for index, match in enumerate(matches):
            at: Keys = (section, index, "match")
            yield from _labels_of_none(made, at, match)
            yield from known.strange(at, match, (), "it fits no target")
    watched = settings.notify.path == "direct"
    for index, route in enumerate(settings.notify.routes):
        at = ("notify", "routes", index, "match")
        if watched:
            yield from _labels_of_none(made, at, route.match)
            effect = "the route never fits"
        else:
            yield from _labels_of_alerts(made, at, route.match)
            effect = "it fits alerts of engines that palanca does not watch, and no others"
        yield from known.strange(at, route.match, route.source, effect)


def _labels_of_none(made: Effective, at: Keys, match: Mapping[str, str]) -> Iterator[str]:
    """Labels that no target has."""
    for label, value in match.items():
        message, hint = f"targets have no label {label}: this fits nothing", ""
        if label in {*COPY_LABELS, PROCESS_LABEL}:
            hint = "copies of a Prometheus, and processes of a server, are one target"
        elif label in _KEYS:
            hint = _instead(label, value) if at[0] == "notify" else "it is one of alerts"
        else:
            continue
        yield str(made.fault((*at, label), message, hint))


def _labels_of_alerts(made: Effective, at: Keys, match: Mapping[str, str]) -> Iterator[str]:
    """Values that no alert of palanca has."""
    for label, value in match.items():
        if label in _CLOSED and value not in _CLOSED[label]:
            message = f"no alert of palanca has the {label} {value!r}: this fits alerts of others only"
            yield str(made.fault((*at, label), message, nearest(value, dict.fromkeys(_CLOSED[label]))))


def _instead(label: str, value: str) -> str:
    """What a route asks instead; with the nearest value where this is none."""
    known = _CLOSED.get(label, (value,))
    close = "" if value in known else nearest(value, dict.fromkeys(known))
    return "; ".join(part for part in (f"write {_KEYS[label]}: [...] in its place", close) if part)


class _Known:
    """The labels whose values the settings fix for every target of a source."""

    def __init__(self, made: Effective) -> None:
        self._made = made
        # Flags replace the sources of the file for a trial, and of faulty ones some are left out.
        there = "sources" not in made.faulty and made.origin("sources").kind != "flag"
        self._fixed = (
            {one.name: _fixed(made, index, one) for index, one in enumerate(made.settings.sources)} if there else {}
        )

    def strange(self, at: Keys, match: Mapping[str, str], names_: Collection[str], effect: str) -> Iterator[str]:
        """Warn of values that no target of these sources (of all, where none is named) can have."""
        sources = [fixed for name, fixed in self._fixed.items() if not names_ or name in names_]
        for label, value in match.items():
            close = "" if label in _USUAL else nearest(label, _USUAL, alike=0.8)
            if close and not any(label in fixed for fixed in sources):
                yield str(self._made.fault((*at, label), f"no target of vLLM has a label {label} by itself", close))
            values = dict.fromkeys(fixed[label] for fixed in sources if label in fixed)
            if sources and all(label in fixed for fixed in sources) and value not in values:
                hint = nearest(value, values) or f"one of {', '.join(values)}"
                message = f"no source has targets with {label} {value!r}: {effect}"
                yield str(self._made.fault((*at, label), message, hint))


def _fixed(made: Effective, index: int, source: SourceSettings) -> Mapping[str, str]:
    """Labels that every target of a source has with this value.

    What a source gives by default is that only where palanca scrapes: a Prometheus may know several clusters.
    """
    given = source.prometheus is None or made.origin("sources", index, "labels").kind != "default"
    chosen = {name: value or source.labels.get(name, "") for name, value in source.match.items()}
    return {**(source.labels if given else {}), **chosen}
