"""What reports say of findings: equal ones grouped over engines, evidence as rows, changes in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palanca.model import (
    CONFIDENCE_ORDER,
    SEVERITY_ORDER,
    Catalogue,
    Confidence,
    Diagnosis,
    Evidence,
    Finding,
    Provenance,
    Recommendation,
    State,
    Status,
    Target,
    TargetReport,
)
from palanca.moments import duration
from palanca.quantities import clock, number, number_range, time_span
from palanca.render.document import RecommendationDocument
from palanca.render.words import (
    listing,
    printable,
    setting,
    signal_title,
)

PROVENANCE: Mapping[Provenance, str] = {
    "reported": "reported by the engine",
    "given": "as given to palanca",
    "inferred": "inferred from the metrics",
    "default": "default of this release",
}


@dataclass(frozen=True)
class Group:
    """Equal findings of several engines: the same rule, role, state and severity."""

    members: tuple[tuple[TargetReport, Finding], ...]

    @property
    def first(self) -> Finding:
        """The finding that speaks for all."""
        return self.members[0][1]

    @property
    def headline(self) -> bool:
        """Whether it is a problem that deserves the whole story."""
        return self.first.problem

    @property
    def targets(self) -> tuple[Target, ...]:
        """The engines."""
        return tuple(report.target for report, _ in self.members)

    @property
    def since(self) -> float:
        """The earliest begin."""
        return min(finding.since for _, finding in self.members)

    @property
    def confidence(self) -> Confidence:
        """The lowest confidence."""
        return max((finding.confidence for _, finding in self.members), key=CONFIDENCE_ORDER.index)

    @property
    def recommendations(self) -> tuple[Recommendation, ...]:
        """Those of the first engine that has any."""
        return next((finding.recommendations for _, finding in self.members if finding.recommendations), ())


def group_findings(diagnosis: Diagnosis) -> list[Group]:
    """Put equal findings together, the worst group first."""
    members: dict[tuple[object, ...], list[tuple[TargetReport, Finding]]] = {}
    place: dict[tuple[object, ...], int] = {}
    for report in diagnosis.targets:
        for index, finding in enumerate(report.findings):
            key = (finding.rule, finding.role, finding.state, finding.severity, finding.full_history)
            members.setdefault(key, []).append((report, finding))
            place[key] = min(place.get(key, index), index)

    def rank(key: tuple[object, ...]) -> tuple[object, ...]:
        _, finding = members[key][0]
        severity = SEVERITY_ORDER.index(finding.severity)
        return (
            finding.role == "symptom",
            severity,
            finding.state == "pending" and finding.full_history,
            place[key],
            -len(members[key]),
            finding.rule,
        )

    return [Group(tuple(members[key])) for key in sorted(members, key=rank)]


def held(group: Group, now: float) -> str:
    """How long the finding has held: ``since 14:00:00 UTC (3 min)``, ``held for 60 s of 3 min``."""
    finding, length = group.first, time_span(max(now - group.since, 0.0))
    needed = f" of {time_span(finding.for_s)}" if finding.for_s else ""
    if not finding.full_history:
        return f"held for {length}{needed}; the source has no longer history"
    if finding.state == "pending":
        return f"pending since {clock(group.since, now)} ({length}{needed})"
    at_least = any(member.since_at_least and member.since <= group.since for _, member in group.members)
    return f"since {clock(group.since, now)}" + (f" or earlier (at least {length})" if at_least else f" ({length})")


def silenced(group: Group, now: float) -> str:
    """Who mutes its alerts: ``silenced until 15:00:00 UTC by 6a1f0c7e``; empty where nothing does."""
    found = [finding.silenced for _, finding in group.members if finding.silenced is not None]
    if not found:
        return ""
    until = clock(min(one.until for one in found), now)
    by = listing([printable(name) for name in dict.fromkeys(name for one in found for name in one.by)])
    some = f" on {len(found)} of {len(group.members)} engines" if len(found) < len(group.members) else ""
    return f"silenced until {until} by {by}{some}"


@dataclass(frozen=True)
class EvidenceRow:
    """One comparison, over the engines of a group, in words."""

    title: str
    value: str
    threshold: str
    note: str

    @property
    def text(self) -> str:
        """On one line."""
        return f"{self.title} {self.value} {self.threshold}"


def evidence_rows(group: Group, catalogue: Catalogue | None = None) -> list[EvidenceRow]:
    """The comparisons of a group, each with the range of its engines."""
    found: dict[tuple[str, str, str], list[tuple[Evidence, State]]] = {}
    for report, finding in group.members:
        for evidence in finding.evidence:
            signal = report.signals.get(evidence.signal)
            state = signal.state if signal else State.OK
            found.setdefault((evidence.signal, evidence.op, evidence.unit), []).append((evidence, state))
    return [evidence_row(items, catalogue) for items in found.values()]


def evidence_row(items: Sequence[tuple[Evidence, State]], catalogue: Catalogue | None = None) -> EvidenceRow:
    """The same comparison at several engines, each with the state of its signal."""
    first = items[0][0]
    values = [evidence.value for evidence, _ in items]
    thresholds = [evidence.threshold for evidence, _ in items]
    digits = _telling_digits(values, thresholds, first.unit)
    states = {state for _, state in items}
    bound = "at least " if State.LOWER_BOUND in states else "about " if State.INTERPOLATED in states else ""
    notes = [printable(evidence.note) for evidence, _ in items if evidence.note]
    return EvidenceRow(
        title=signal_title(first.signal, catalogue),
        value=bound + number_range(values, first.unit, digits),
        threshold=f"{first.op} {number_range(thresholds, first.unit, digits)}",
        note=notes[0] if notes else "",
    )


def _telling_digits(values: Sequence[float], thresholds: Sequence[float], unit: str) -> int:
    """As many digits as it takes that 0.8504 > 0.85 does not read 0.85 > 0.85."""
    close = [(a, b) for a in values for b in thresholds if a != b][: len(values)]
    for digits in range(3, 7):
        if all(number(a, unit, digits) != number(b, unit, digits) for a, b in close):
            return digits
    return 3


def change(recommendation: Recommendation | RecommendationDocument) -> str:
    """The change in one line: ``--max-num-seqs 256 -> 96``."""
    name = recommendation.flag or printable(recommendation.lever).replace("_", " ")
    current, proposed = recommendation.current, recommendation.proposed
    if recommendation.direction == "none":
        return f"{name} (no flag of the engine)"
    if removed(recommendation):
        return f"remove {name}" + ("" if current is None else f" (now {setting(current)})")
    if isinstance(proposed, bool) or (proposed is None and recommendation.direction in {"enable", "disable"}):
        on = proposed if isinstance(proposed, bool) else recommendation.direction == "enable"
        return f"{name}: turn {'on' if on else 'off'}"
    if proposed is None:
        return f"{recommendation.direction} {name}" + ("" if current is None else f" (now {setting(current)})")
    if current is None:
        return f"{name} -> {setting(proposed)}"
    return f"{name} {setting(current)} -> {setting(proposed)}"


def diff(recommendation: Recommendation) -> list[tuple[Literal["-", "+"], str]]:
    """The change as lines that go and lines that come; empty where no argument is known."""
    argument, current = recommendation.argument, recommendation.current
    if argument is None:
        return []
    old = current is not None and not isinstance(current, bool) and recommendation.flag
    lines: list[tuple[Literal["-", "+"], str]] = [("-", f"{recommendation.flag} {setting(current)}")] if old else []
    if not removed(recommendation):
        lines.append(("+", argument))
    return lines or [("-", recommendation.flag or argument)]


def removed(recommendation: Recommendation | RecommendationDocument) -> bool:
    """Whether the flag has a value and shall be left out of the command line."""
    argument = recommendation.argument or ""
    return recommendation.direction == "disable" and argument.startswith("remove ")


def details(recommendation: Recommendation, catalogue: Catalogue | None = None) -> list[tuple[str, str]]:
    """What there is to say of a recommendation, as pairs of a short label and a text."""
    pairs = [
        ("Why", recommendation.why),
        ("Now", _now(recommendation)),
        ("Computed" if recommendation.proposed is not None else "Value", recommendation.computed_from),
        ("Set", "" if removed(recommendation) else recommendation.argument or ""),
        ("Applies to", recommendation.applies_to),
        ("Effect", recommendation.effect),
        ("Trade-off", recommendation.trade_off),
        ("Risk", recommendation.risk),
        ("Verify", "; ".join(checks(recommendation, catalogue))),
    ]
    return [(label, printable(text)) for label, text in pairs if text]


def _now(recommendation: Recommendation) -> str:
    if recommendation.current is None:
        return "unknown" if recommendation.flag else ""
    source = f", {PROVENANCE[recommendation.provenance]}" if recommendation.provenance else ""
    return setting(recommendation.current) + source


def checks(recommendation: Recommendation, catalogue: Catalogue | None = None) -> list[str]:
    """How to see that the change helped: ``Preemptions per minute <= 1 within 10m``."""
    return [
        f"{signal_title(verify.signal, catalogue)} {printable(verify.expect)} within {duration(verify.within)}"
        for verify in recommendation.verify
    ]


def other_values(group: Group, names: Mapping[Target, str]) -> str:
    """Where engines of a group need another value than the one that is shown; empty where all agree."""
    if not group.recommendations:
        return ""
    shown = change(group.recommendations[0])
    different: dict[str, list[str]] = {}
    for report, finding in group.members:
        text = change(finding.recommendations[0]) if finding.recommendations else shown
        if text != shown:
            different.setdefault(text, []).append(names[report.target])
    return "; ".join(f"{text} on {listing(where)}" for text, where in different.items())


# --- the table of engines ------------------------------------------------------------------------

KEY_NUMBERS = (
    "ttft_p50", "ttft_p99", "itl_p99", "running", "waiting", "kv_cache_usage", "prefix_hit_rate",
    "generation_tokens_per_second",
)  # fmt: skip
STATUS_ORDER: tuple[Status, ...] = ("critical", "warning", "unknown", "idle", "ok")


def worst_first(diagnosis: Diagnosis) -> list[TargetReport]:
    """All engines, the worst status first, else in their own order."""
    return sorted(diagnosis.targets, key=lambda report: STATUS_ORDER.index(report.status))


def cell(report: TargetReport, name: str, *, bare: bool = False) -> str:
    """One signal of an engine for a table: ``>=`` for a lower bound, ``-`` for none; ``bare`` drops "requests"."""
    signal = report.signals.get(name)
    if signal is None or signal.value is None or signal.state >= State.ABSENT:
        return "-"
    text = number(signal.value, "1" if bare and signal.unit == "requests" else signal.unit)
    return f">={text}" if signal.state is State.LOWER_BOUND else text
