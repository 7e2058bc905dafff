"""What cannot be said, and why: rules without their signals, engines without a core signal, sources in trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from palanca.model import Catalogue, Diagnosis, SourceInfo, State, Target, TargetReport
from palanca.quantities import time_span
from palanca.render.words import printable, signal_title, without_credentials

STATE_WORDS: Mapping[State, str] = {
    State.OK: "ok",
    State.LOWER_BOUND: "lower bound",
    State.INTERPOLATED: "interpolated",
    State.ABSENT: "absent",
    State.IDLE: "no traffic",
    State.STALE: "stale",
    State.NOT_APPLICABLE: "not applicable",
}


def lacking(missing: Iterable[tuple[str, State]], title: Callable[[str], str] = printable) -> str:
    """What a rule lacks, each with its state: ``prefix_hit_rate (absent), waiting (stale)``."""
    return ", ".join(f"{title(name)} ({STATE_WORDS[state]})" for name, state in missing)


@dataclass(frozen=True)
class UnjudgedGroup:
    """Rules that lack the same signals on the same engines."""

    rules: tuple[str, ...]
    missing: tuple[tuple[str, State], ...]
    targets: tuple[Target, ...]

    @property
    def lacks(self) -> str:
        """``prefix_hit_rate (absent), waiting (stale)``."""
        return lacking(self.missing)


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


CORE = (
    "up", "running", "waiting", "kv_cache_usage", "ttft_p99", "generation_tokens_per_second", "e2e_p99",
)  # fmt: skip


def core_gaps(report: TargetReport, catalogue: Catalogue | None = None) -> list[str]:
    """The core signals that an engine lacks, without which it cannot be judged: ``KV cache in use (stale)``."""
    words = {State.ABSENT: "absent", State.STALE: "stale"}
    found = [(name, report.signals[name].state) for name in CORE if name in report.signals]
    return [f"{signal_title(name, catalogue)} ({words[state]})" for name, state in found if state in words]


def source_trouble(source: SourceInfo) -> tuple[str, str]:
    """What is wrong with a source: its state in capitals, and what that means; both empty where nothing is."""
    age = f" The newest sample is {time_span(source.age_s)} old." if source.age_s is not None else ""
    error = f" {printable(without_credentials(source.error))}" if source.error else ""
    match source.state:
        case "unreachable":
            return "SOURCE UNREACHABLE:", (
                f"No data could be read:{error or ' no reason was given'}.{age} Nothing is concluded from missing "
                "data: this is no verdict on the engines."
            )
        case "stale":
            return "SOURCE STALE:", f"The data are old.{age}{error}"
        case "partial":
            return "SOURCE PARTIAL:", f"Some queries failed; what they would have shown is unknown.{error}"
        case _:
            return "", ""
