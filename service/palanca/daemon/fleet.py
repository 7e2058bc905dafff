"""The diagnoses of several sources as one: labels added, what is old marked as old. Pure; the clock is an argument."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from palanca.model import Diagnosis, SourceInfo, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from palanca.model import TargetReport

SourceState = Literal["ok", "partial", "stale", "unreachable"]
STATE_ORDER: tuple[SourceState, ...] = ("unreachable", "stale", "partial", "ok")
"""The worst first."""
LATE_POLLS = 2.5
"""A diagnosis older than so many intervals is stale: two polls in a row are missing."""


@dataclass(frozen=True)
class View:
    """What is known of one source.

    ``diagnosis`` is the last finished one, None before the first. ``error`` says why the newest poll failed, None where
    it did not. ``labels`` are added to the targets that lack them. ``interval`` is that of the polls in seconds.
    ``left_out`` are targets that the diagnosis lacks because the source answered in part only, as they were before.
    ``impossible``: the source was asked for a moment that it cannot know, and ``error`` says so.
    """

    name: str
    url: str
    interval: float
    diagnosis: Diagnosis | None = None
    error: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[TargetReport, ...] = ()
    impossible: bool = False

    def age(self, now: float) -> float | None:
        """Seconds since the moment of the last diagnosis; None without one."""
        return None if self.diagnosis is None else max(round(now - self.diagnosis.time, 3), 0.0)

    def info(self, now: float) -> SourceInfo:
        """Describe the source as of ``now``."""
        age = self.age(now)
        if self.diagnosis is None or age is None:
            return SourceInfo(self.name, self.url, "unreachable", error=self.error or "not polled yet")
        own = self.diagnosis.source
        late = f"no poll has finished for {age:.0f} s" if age > LATE_POLLS * self.interval else None
        if self.diagnosis.time - now > self.interval:
            late = f"the clock was set back by {self.diagnosis.time - now:.0f} s since the last poll"
        state: SourceState = "stale" if self.error or late else own.state
        error = self.error or own.error or late
        return SourceInfo(self.name, self.url, state, age, own.warnings, error)


def with_labels(target: Target, labels: Mapping[str, str]) -> Target:
    """Add labels that the target lacks."""
    lacking = {name: value for name, value in labels.items() if not target.get(name)}
    return Target.of({**target.as_dict(), **lacking}) if lacking else target


def labelled(report: TargetReport, labels: Mapping[str, str]) -> TargetReport:
    """Add labels that the target of a report lacks."""
    target = with_labels(report.target, labels)
    return report if target is report.target else replace(report, target=target)


def aged(report: TargetReport) -> TargetReport:
    """Report what was said some time ago: that something was well then says nothing of now."""
    return replace(report, status="unknown") if report.status in {"ok", "idle"} else report


def left_out(part: Diagnosis, view: View) -> tuple[TargetReport, ...]:
    """Return the targets of a view that a diagnosis of a part of the data leaves out, as they were before."""
    before = view.diagnosis.targets if view.diagnosis is not None else ()
    there = {report.target for report in part.targets}
    return tuple(aged(report) for report in (*before, *view.left_out) if report.target not in there)


def merged(views: Sequence[View], now: float) -> Diagnosis:
    """Put the last diagnoses together. A target that two sources know is reported by the one in the better state."""
    infos = [view.info(now) for view in views]
    order = sorted(range(len(views)), key=lambda index: -STATE_ORDER.index(infos[index].state))
    reports: dict[Target, TargetReport] = {}
    for index in order:
        diagnosis, old = views[index].diagnosis, infos[index].state in {"stale", "unreachable"}
        for report in (*diagnosis.targets, *views[index].left_out) if diagnosis is not None else ():
            one = labelled(report, views[index].labels)
            reports.setdefault(one.target, aged(one) if old else one)
    times = [view.diagnosis.time for view in views if view.diagnosis is not None]
    targets = tuple(reports[target] for target in sorted(reports, key=lambda target: target.labels))
    return Diagnosis(max(times, default=now), together(infos), targets, tuple(infos))


def together(infos: Sequence[SourceInfo]) -> SourceInfo:
    """Describe several sources as one: the worst state, the greatest age, everything that was said."""
    if len(infos) == 1:
        return infos[0]
    ages = [info.age_s for info in infos if info.age_s is not None]
    errors = [f"{info.name}: {info.error}" for info in infos if info.error is not None]
    return SourceInfo(
        name=", ".join(info.name for info in infos),
        url=", ".join(info.url for info in infos),
        state=min((info.state for info in infos), key=STATE_ORDER.index, default="unreachable"),
        age_s=max(ages, default=None),
        warnings=tuple(f"{info.name}: {warning}" for info in infos for warning in info.warnings),
        error="\n".join(errors) or None,
    )
