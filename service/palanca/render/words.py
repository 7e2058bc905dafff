"""Words that every report shares: numbers with units, times, names of engines and signals, groups of findings.

Whatever comes from labels or settings is hostile until ``printable`` has seen it: newlines, escape codes and marks
that turn the direction of writing are shown as escapes.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

from palanca import moments
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
    Target,
    TargetReport,
)
from palanca.moments import duration

ELLIPSIS = "…"
Setting = float | bool | str | None
"""Value of a lever."""
NAMES_SHOWN = 3
"""Engines named in a group before "and N more"."""

# --- text from outside ---------------------------------------------------------------------------

_CREDENTIALS = re.compile(r"//[^/?#\s]*@")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_EAST_ASIAN = 0x2E80
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def without_credentials(text: str) -> str:
    """Take ``user:password@`` out of the URLs in a text."""
    return _CREDENTIALS.sub("//", text)


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON strings may hold but UTF-8 cannot."""
    return _SURROGATE.sub("\ufffd", text)


def printable(text: str) -> str:
    """Show control, format and unassigned characters as escapes, such as a line feed as backslash and n."""
    return "".join(_escape(letter) if unicodedata.category(letter) in _UNSEEN else letter for letter in text)


def _escape(letter: str) -> str:
    code = ord(letter)
    if letter in _SHORT:
        return _SHORT[letter]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004


def cells(text: str) -> int:
    """Columns that a text takes in a terminal, at most.

    Terminals know other releases of Unicode than Python: what some of them draw wide is wide here.
    """
    return len(text) if text.isascii() else sum(2 if _wide(letter) else 1 for letter in text)


def _wide(letter: str) -> bool:
    if unicodedata.east_asian_width(letter) in {"W", "F"}:
        return True
    return ord(letter) >= _EAST_ASIAN or unicodedata.category(letter) == "So"


def clip(text: str, width: int) -> str:
    """Cut a text to so many columns, with an ellipsis in the middle: both ends tell engines apart."""
    if cells(text) <= width:
        return text
    head = fit(text, (width - 1) // 2)
    tail = fit(text[::-1], width - 1 - cells(head))[::-1]
    return head + ELLIPSIS + tail


def fit(text: str, width: int) -> str:
    """The longest beginning of a text that takes at most so many columns."""
    return text[: sum(used <= width for used in accumulate(map(cells, text)))]


def plural(count: int, word: str) -> str:
    """``1 engine``, ``3 engines``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def listing(items: Sequence[str], shown: int = NAMES_SHOWN) -> str:
    """``a, b, c and 2 more``."""
    if len(items) <= shown + 1:
        return ", ".join(items)
    return f"{', '.join(items[:shown])} and {len(items) - shown} more"


# --- numbers and times ---------------------------------------------------------------------------

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_LONG = 120.0
_KIBI = 1024
_TEN = 10
_SMALLEST, _LARGEST = -9, 15
"""Powers of ten that are written out; beyond them a number gets an exponent."""
_SINGULAR = re.compile(r"^([a-z]+)s(?=/|$)")
_SIGNIFICANT = 10
_FIRST_YEAR, _LAST_YEAR = 0.0, 253402300799.0  # 1970 to 9999, what RFC 3339 can write


def finite(value: float | None) -> float | None:
    """Round to 10 significant digits; None for NaN and infinities. Minus zero becomes zero."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_SIGNIFICANT}g}") + 0.0


def rfc3339(time: float) -> str:
    """Unix seconds as RFC 3339 in UTC, kept within the years that it can write."""
    return moments.rfc3339(_in_range(time))


def _in_range(time: float) -> float:
    return min(max(time, _FIRST_YEAR), _LAST_YEAR) if math.isfinite(time) else 0.0


def moment(time: float) -> str:
    """Unix seconds for people: ``2026-03-01 14:03:30 UTC``."""
    return datetime.fromtimestamp(int(_in_range(time)), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(time: float, now: float) -> str:
    """Time of day, with the date where it is not that of ``now``."""
    then, today = moment(time), moment(now)
    return then.partition(" ")[2] if then[:10] == today[:10] else then


def time_span(seconds: float) -> str:
    """A length of time in the two largest units: ``45 s``, ``3 min 30 s``, ``2 h``, ``3 d 4 h``."""
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for size, word in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count or parts:
            parts.append((count, word))
    return " ".join(f"{count} {word}" for count, word in parts[:2] if count) or "0 s"


def number(value: float | None, unit: str, digits: int = 3) -> str:
    """A value for people, with its unit: ``84 ms``, ``4.7 s``, ``0.97``, ``12 requests``, ``1,240 tokens/s``."""
    if value is None or not math.isfinite(value):
        return "without bound" if value == math.inf else "-"
    figure, word = _parts(value, unit, digits)
    return _join(figure, _SINGULAR.sub(r"\1", word) if figure == "1" else word)


def number_range(values: Iterable[float], unit: str, digits: int = 3) -> str:
    """Numbers of several engines: ``0.95-0.99``, or one number where they read the same."""
    kept = sorted(value for value in values if math.isfinite(value))
    if not kept:
        return "-"
    (low, low_word), (high, high_word) = _parts(kept[0], unit, digits), _parts(kept[-1], unit, digits)
    if (low, low_word) == (high, high_word):
        return number(kept[-1], unit, digits)
    if low_word != high_word or kept[0] < 0 or " " in low + high:
        return f"{_join(low, '' if low == '0' else low_word)} to {_join(high, high_word)}"
    return _join(f"{low}-{high}", high_word)


def _join(figure: str, word: str) -> str:
    return f"{figure}{word}" if not word or word.startswith("/") else f"{figure} {word}"


def _parts(value: float, unit: str, digits: int) -> tuple[str, str]:
    """A number and the word of its unit, in the plural."""
    if unit == "s":
        return _seconds(value, digits)
    if unit == "bytes":
        return _bytes(value, digits)
    if unit in {"", "1", "ratio"}:
        return _figure(value, digits - 1 if abs(value) < 1 else digits), ""
    return _figure(value, digits), printable(unit.removeprefix("1") if unit.startswith("1/") else unit)


def _seconds(value: float, digits: int) -> tuple[str, str]:
    if abs(value) >= _LONG:
        return ("-" if value < 0 else "") + time_span(abs(value)), ""
    if value == 0 or abs(value) >= 1:
        return _figure(value, digits - 1 if abs(value) < _TEN else digits), "s"
    return _figure(value * 1000, digits), "ms"


def _bytes(value: float, digits: int) -> tuple[str, str]:
    for word in ("bytes", "KiB", "MiB", "GiB"):
        if abs(value) < _KIBI:
            return _figure(value, digits), word
        value /= _KIBI
    return _figure(value, digits), "TiB"


def _figure(value: float, digits: int) -> str:
    """Round to significant digits, but never the digits before the point; no trailing zeros."""
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not _SMALLEST <= size <= _LARGEST:
        return f"{value:.{digits}g}"
    text = f"{value:,.{max(digits - 1 - size, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def setting(value: Setting) -> str:
    """A value as it is written on a command line."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return printable(value)
    return str(int(value)) if math.isfinite(value) and float(value).is_integer() else f"{value:.6g}"


# --- names ---------------------------------------------------------------------------------------

_CAPITALS = {"kv": "KV", "ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E", "http": "HTTP", "vllm": "vLLM"}


def signal_title(name: str, catalogue: Catalogue | None = None) -> str:
    """Title of a signal: the catalogue's, or the name in words (``kv_cache_usage`` -> ``KV cache usage``)."""
    signal = catalogue.signals.get(name) if catalogue else None
    if signal:
        return printable(signal.title)
    words = re.sub("[a-z0-9]+", lambda word: _CAPITALS.get(word[0], word[0]), printable(name).replace("_", " "))
    return words if words[:1] != name[:1] or words.startswith("vLLM") else words[:1].upper() + words[1:]


def target_name(target: Target) -> str:
    """Short name of an engine: ``model @ instance``, with ``engine N`` after the first; else its labels."""
    labels = target.as_dict()
    engine = labels.get("engine", "0")
    return _short(labels) + (f" engine {printable(engine)}" if engine != "0" and _short(labels)[0] != "{" else "")


def _short(labels: Mapping[str, str]) -> str:
    model, instance = printable(labels.get("model_name", "")), printable(labels.get("instance", ""))
    if instance:
        return f"{model} @ {instance}" if model else instance
    return _braces(labels)


def _braces(labels: Mapping[str, str]) -> str:
    inner = ", ".join(f'{printable(name)}="{printable(value)}"' for name, value in labels.items())
    return "{" + inner + "}"


def target_names(targets: Sequence[Target]) -> dict[Target, str]:
    """Names that tell the engines apart: engines of equal short names get the labels in which they differ."""
    short = {target: _short(target.as_dict()) for target in targets}
    counts = Counter(short.values())
    return {target: name if counts[name] == 1 else _longer(target, targets, short) for target, name in short.items()}


def _longer(target: Target, targets: Sequence[Target], short: Mapping[Target, str]) -> str:
    same = [other.as_dict() for other in targets if short[other] == short[target]]
    labels = target.as_dict()
    names = sorted({name for other in same for name in other})
    differ = [name for name in names if len({other.get(name) for other in same}) > 1]
    more = [f"{printable(name)} {printable(labels[name])}" for name in differ if name in labels]
    return " ".join([short[target], *more])


def group_name(labels: Mapping[str, str]) -> str:
    """Name of what a fleet rule compared: ``model llama``."""
    model = labels.get("model_name")
    return f"model {printable(model)}" if model else _braces(dict(sorted(labels.items())))


def some_engines(targets: Sequence[Target], total: int, names: Mapping[Target, str]) -> str:
    """A few engines by name, many by number, all by nothing."""
    if len(targets) == total:
        return ""
    few = len(targets) <= NAMES_SHOWN
    return listing([clip(names[target], 60) for target in targets]) if few else f"{len(targets)} of {total} engines"


# --- findings ------------------------------------------------------------------------------------

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
        return self.first.role == "root" and self.first.severity != "info"

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
    return [_row(items, catalogue) for items in found.values()]


def _row(items: Sequence[tuple[Evidence, State]], catalogue: Catalogue | None) -> EvidenceRow:
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


# --- recommendations -----------------------------------------------------------------------------


def change(recommendation: Recommendation) -> str:
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


def removed(recommendation: Recommendation) -> bool:
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


# --- what could not be judged --------------------------------------------------------------------

STATE_WORDS: Mapping[State, str] = {
    State.OK: "ok",
    State.LOWER_BOUND: "lower bound",
    State.INTERPOLATED: "interpolated",
    State.ABSENT: "absent",
    State.IDLE: "no traffic",
    State.STALE: "stale",
    State.NOT_APPLICABLE: "not applicable",
}


@dataclass(frozen=True)
class UnjudgedGroup:
    """Rules that lack the same signals on the same engines."""

    rules: tuple[str, ...]
    missing: tuple[tuple[str, State], ...]
    targets: tuple[Target, ...]

    @property
    def lacks(self) -> str:
        """``prefix_hit_rate (absent), waiting (stale)``."""
        return ", ".join(f"{printable(name)} ({STATE_WORDS[state]})" for name, state in self.missing)


def group_unjudged(diagnosis: Diagnosis) -> list[UnjudgedGroup]:
    """Collapse the rules that could not be judged, those on most engines first."""
    where: dict[tuple[str, tuple[tuple[str, State], ...]], list[Target]] = {}
    for report in diagnosis.targets:
        for unjudged in report.unknown:
            where.setdefault((unjudged.rule, unjudged.missing), []).append(report.target)
    rules: dict[tuple[tuple[tuple[str, State], ...], tuple[Target, ...]], list[str]] = {}
    for (rule, missing), targets in where.items():
        rules.setdefault((missing, tuple(targets)), []).append(rule)
    groups = [UnjudgedGroup(tuple(names), missing, targets) for (missing, targets), names in rules.items()]
    return sorted(groups, key=lambda group: (-len(group.targets), -len(group.rules), group.rules))
