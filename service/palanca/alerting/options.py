"""What a user can choose about the exported files, and which thresholds hold for which targets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from palanca.alerting import names
from palanca.alerting.routing import Routing
from palanca.errors import UsageError
from palanca.expressions import nearest
from palanca.releases import Release, ReleaseRange
from palanca.signals.promql import quote

if TYPE_CHECKING:
    from palanca.model import Catalogue, Metrics, Severity

_LABEL = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")
_ALERT_PREFIX = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_NOT_RE2 = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]")
_MINOR = re.compile(r"^v?\d+\.\d+$")
_MOST_CELLS = 200


@dataclass(frozen=True, order=True)
class Matcher:
    """One matcher of a selector; ``op`` is one of ``= != =~ !~``."""

    label: str
    op: str
    value: str

    def __str__(self) -> str:
        """As PromQL."""
        return f"{self.label}{self.op}{quote(self.value)}"


def matchers(text: str, option: str = "--selector") -> tuple[Matcher, ...]:
    """Read ``job="vllm", instance=~"a.*"``, with or without braces. Raises ``UsageError`` with the column."""
    inside = text.strip()
    shift = text.index(inside) if inside else 0
    if inside.startswith("{") and inside.endswith("}"):
        inside, shift = inside[1:-1], shift + 1
    made, at = [], 0
    while inside[at:].strip():
        found = _MATCHER.match(inside, at)
        if found is None or (found.end() < len(inside) and inside[found.end()] != ","):
            column = shift + (at if found is None else found.end()) + 1
            raise UsageError(f'{option} {text!r}: no matcher at column {column}; write it as job="vllm",team!="x"')
        label, op, quoted = found.groups()
        value = re.sub(r"\\.", lambda one: _ESCAPES.get(one[0], one[0]), quoted[1:-1], flags=re.DOTALL)
        if op in {"=~", "!~"}:
            _regular(value, option)
        made.append(Matcher(label, op, value))
        at = found.end() + 1
    return tuple(made)


def _regular(value: str, option: str) -> None:
    try:
        re.compile(value)
        if _NOT_RE2.search(value):
            raise re.error("Prometheus knows neither look-around nor back-references")  # noqa: TRY301
    except re.error as error:
        raise UsageError(
            f"{option}: {value!r} is no regular expression: {error}; quote what is meant as text"
        ) from None


@dataclass(frozen=True)
class Override:
    """Other thresholds (``{rule: {threshold: value}}``) or objectives (``{"ttft_p99": s}``) for some targets."""

    match: Mapping[str, str] = field(default_factory=dict)
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    slo: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """Targets for which the same numbers hold: those that fit all matchers. ``values`` replace what rules say."""

    matchers: tuple[Matcher, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The matchers as text; empty for all targets."""
        return ",".join(str(one) for one in self.matchers)


@dataclass(frozen=True)
class Options:
    """What the exported files are like.

    ``releases`` None means all that are known. ``rules`` are ids or globs, ``severities`` those wanted; empty means
    all. ``labels`` go onto every alert. ``interval`` is in seconds. Of several ``overrides`` that fit a target the
    later one wins. ``palanca_scraped`` says that ``palanca_job`` is surely a job of the Prometheus. Raises
    ``UsageError``.
    """

    alert_prefix: str = names.PREFIX
    releases: ReleaseRange | None = None
    prefixes: tuple[str, ...] = ("vllm:",)
    selector: tuple[Matcher, ...] = ()
    rules: tuple[str, ...] = ()
    severities: tuple[Severity, ...] = ()
    overrides: tuple[Override, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    interval: float = 15.0
    external_url: str | None = None
    dashboard_url: str | None = None
    guards: bool = True
    palanca_job: str = "palanca"
    palanca_scraped: bool = False
    routing: Routing = field(default_factory=Routing)

    def __post_init__(self) -> None:
        """Refuse what Prometheus would refuse or never match."""
        if not _ALERT_PREFIX.match(self.alert_prefix):
            raise UsageError(f"the prefix {self.alert_prefix!r} of alerts must be letters, digits and underscores")
        if not self.prefixes:
            raise UsageError("at least one prefix of vLLM's metric names is needed, e.g. vllm:")
        for url in (self.external_url, self.dashboard_url):
            if url is not None and ("{{" in url or "}}" in url):
                raise UsageError("a URL with {{ or }} in it would be a template of Prometheus; write %7B%7B and %7D%7D")
            if url is not None and urlsplit(url).scheme not in {"http", "https"}:
                raise UsageError(f"{url!r} is no address that people can open; write https://HOST/PATH")
            if url is not None and "@" in urlsplit(url).netloc:
                raise UsageError("a URL with user and password in it would stand in every alert; leave them out")
        for label in self.labels:
            if not _LABEL.match(label) or label.startswith("__"):
                raise UsageError(f"{label!r} is not a label name; use letters, digits and underscores")
            if label in names.OWN_LABELS:
                raise UsageError(f"the label {label} is set by the rules themselves; choose another name")
        if not 1 <= self.interval <= 60:  # noqa: PLR2004  above it a window of 2 minutes has too few steps
            raise UsageError(f"an evaluation interval of {self.interval:g} s is not from 1s to 1m")

    def checked(self, catalogue: Catalogue) -> Options:
        """Return itself when it fits the catalogue. Raises ``UsageError`` that says what does not."""
        _check_prefixes(self.prefixes, catalogue.metrics)
        _check_releases(self.releases, catalogue.metrics)
        _check_selector(self.selector, catalogue.metrics)
        ids = {rule.id: rule for rule in catalogue.rules}
        for pattern in self.rules:
            if not any(fnmatchcase(one, pattern) for one in ids):
                hint = nearest(pattern, ids) or "palanca rules list shows them"
                raise UsageError(f"no rule fits {pattern!r}; {hint}")
        for override in self.overrides:
            _check_override(override, catalogue)
        return self

    def chosen(self, rule_id: str) -> bool:
        """Whether a rule is among those that are wanted."""
        return not self.rules or any(fnmatchcase(rule_id, pattern) for pattern in self.rules)

    def cells(self, rule_id: str, objectives: Sequence[str]) -> tuple[Cell, ...]:
        """Part all targets by the numbers that hold for a rule that uses these objectives; disjoint and complete.

        The values of a cell have the names of thresholds, and ``slo.ttft_p99`` for objectives. Raises ``UsageError``.
        """
        cells = [Cell()]
        for override in self.overrides:
            values = dict(override.thresholds.get(rule_id, {}))
            values |= {f"slo.{name}": one for name, one in override.slo.items() if f"slo.{name}" in objectives}
            if values:
                cells = [part for cell in cells for part in _parted(cell, sorted(override.match.items()), values)]
            if len(cells) > _MOST_CELLS:
                raise UsageError(
                    f"the overrides part the targets of {rule_id} in more than {_MOST_CELLS} sets; "
                    "match by the same label everywhere, e.g. model_name"
                )
        return tuple(sorted(cells, key=lambda cell: cell.name))


def _parted(cell: Cell, match: Sequence[tuple[str, str]], values: Mapping[str, float]) -> list[Cell]:
    """Cut a cell by equal labels: what lies outside of them, piece by piece, and what lies inside, with new values."""
    if any(
        one.label == label and (one.value == value) != (one.op == "=")
        for label, value in match
        for one in cell.matchers
    ):
        return [cell]  # nothing of it fits
    pieces, inside = [], cell
    for label, value in match:
        if Matcher(label, "=", value) in inside.matchers:
            continue
        pieces.append(Cell((*inside.matchers, Matcher(label, "!=", value)), cell.values))
        kept = tuple(one for one in inside.matchers if one.label != label)
        inside = Cell((*kept, Matcher(label, "=", value)), cell.values)
    return [*pieces, Cell(inside.matchers, {**inside.values, **values})]


def release_range(text: str, metrics: Metrics) -> ReleaseRange | None:
    """Read ``0.33``, ``0.24.0-0.33.0``, ``0.24+`` or ``all``, which is None. Raises ``UsageError``."""
    if text.strip() == "all":
        return None
    try:
        made = ReleaseRange.parse(text)
    except ValueError as error:
        raise UsageError(f"--vllm: {error}; e.g. --vllm 0.33, --vllm 0.24.0-0.33.0 or --vllm all") from None
    if made.last is not None and _MINOR.match(made.last.text):  # 0.8 means all of 0.8
        made = ReleaseRange(made.first, Release(f"{made.last.text}.9999"))
    _check_releases(made, metrics)
    return made


def _check_releases(releases: ReleaseRange | None, metrics: Metrics) -> None:
    if releases is not None and not any(Release(one) in releases for one in metrics.releases):
        first, last = metrics.releases[0], metrics.releases[-1]
        raise UsageError(f"--vllm {releases}: no known release is in it; {first} to {last} are known")


def _check_prefixes(prefixes: Sequence[str], metrics: Metrics) -> None:
    for prefix in prefixes:
        if prefix not in metrics.prefixes:
            raise UsageError(f"the prefix {prefix!r} is not known; choose from {', '.join(metrics.prefixes)}")


def _check_selector(selector: Sequence[Matcher], metrics: Metrics) -> None:
    own = {label for family in metrics.families.values() for label in family.labels} | {"le", "__name__"}
    for one in selector:
        if one.label in own:
            raise UsageError(
                f"--selector {one}: {one.label} belongs to single metrics; select by labels of the targets"
            )


def _check_override(override: Override, catalogue: Catalogue) -> None:
    rules = {rule.id: rule for rule in catalogue.rules}
    for label in override.match:
        if not _LABEL.match(label):
            raise UsageError(f"an override matches {label!r}, which is not a label name")
    for rule_id, values in override.thresholds.items():
        if rule_id not in rules:
            raise UsageError(f"an override names the rule {rule_id!r}, which does not exist; {nearest(rule_id, rules)}")
        for name in values:
            if name not in rules[rule_id].thresholds:
                known = ", ".join(rules[rule_id].thresholds) or "none"
                raise UsageError(f"the rule {rule_id} has no threshold {name!r}; it has {known}")
    for name in override.slo:
        if f"slo.{name}" not in catalogue.facts:
            known = ", ".join(one.removeprefix("slo.") for one in catalogue.facts if one.startswith("slo."))
            raise UsageError(f"there is no objective {name!r}; there are {known}")
