"""The report of a run, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.figures import Figures
from lab.trial import Outcome

ROWS = (
    ("requests/s", "requests_per_second", 1.0, "{:.2f}"),
    ("tokens/s", "tokens_per_second", 1.0, "{:,.0f}"),
    ("TTFT p50, s", "ttft_p50", 1.0, "{:.3f}"),
    ("TTFT p99, s", "ttft_p99", 1.0, "{:.3f}"),
    ("ITL mean, ms", "itl_mean", 1000.0, "{:.1f}"),
    ("gap p99, ms", "gap_p99", 1000.0, "{:.0f}"),
    ("failed", "failed", 1.0, "{:.0f}"),
)
"""Title, name, factor and format of what the client measured."""


def cured(outcomes: Sequence[Outcome]) -> tuple[int, int]:
    """How many faults the first recommendation cured, and how many there were."""
    faults = [one for one in outcomes if not one.fault.healthy]
    return sum(one.cured for one in faults), len(faults)


def markdown(outcomes: Sequence[Outcome], about: str) -> str:
    """The whole report."""
    return "\n".join([*_head(outcomes, about), *(line for one in outcomes for line in _one(one))]) + "\n"


def _head(outcomes: Sequence[Outcome], about: str) -> Iterator[str]:
    good, all_of_them = cured(outcomes)
    yield from ("# Real vLLM in the loop", "", about, "")
    yield f"**{good} of {all_of_them} faults were cured by the first recommendation.**"
    yield from ("", "| fault | flags | cause found (rule, confidence) | first recommendation | verdict | cured |")
    yield "|---|---|---|---|---|---|"
    for one in outcomes:
        yield f"| {one.fault.name} | `{' '.join(one.fault.flags)}` | {_found(one)} | {_advice(one)} | {_verdict(one)} |"
    yield ""


def _found(one: Outcome) -> str:
    if one.fault.healthy:
        return ", ".join(f"{found['rule']} ({found['severity']})" for found in one.loud) or "nothing, as it should"
    if one.advice is None:
        return "no finding with a recommendation"
    found = one.advice.finding
    return f"{found['cause']} ({found['rule']}, {found['confidence']})"


def _advice(one: Outcome) -> str:
    if one.fault.healthy or one.advice is None:
        return "none"
    return f"`{one.advice.said}`" + (" by the clients" if one.where == "client" else "")


def _verdict(one: Outcome) -> str:
    if one.fault.healthy:
        return "- | " + ("quiet" if not one.loud else "**not quiet**")
    if one.why_not:
        return f"not followed: {one.why_not} | no"
    more = "; the finding is still there" if one.still_there else ""
    return f"{one.verdict}{more} | {'**yes**' if one.cured else 'no'}"


def _one(one: Outcome) -> Iterator[str]:
    yield from (f"## {one.fault.name}", "", f"{_capital(one.fault.title)}. Load: {one.fault.load.said()}.", "")
    for found in one.findings:
        if found["role"] == "root":
            yield f"- {found['rule']}: {found['severity']}, confidence {found['confidence']}. {found['summary']}"
    if one.advice is not None and not one.fault.healthy:
        part = one.advice.recommendation
        now, how = part["current"], part["computed_from"]
        yield f"- First recommendation: `{one.advice.said}` (now {now}; computed from: {how}). {part['why']}"
    if one.verification is not None:
        yield f"- `palanca verify`: {one.verdict}: {one.verification['why']}"
        yield f"- Found after: {', '.join(found['rule'] for found in one.findings_after or ()) or 'nothing'}"
    yield from ("", *_table(one.before, one.after), "")


def _table(before: Figures | None, after: Figures | None) -> Iterator[str]:
    if before is None:
        return
    yield from ("| by the client's clock | before | after |", "|---|---|---|")
    for title, name, factor, form in ROWS:
        yield f"| {title} | {_number(before, name, factor, form)} | {_number(after, name, factor, form)} |"


def _number(figures: Figures | None, name: str, factor: float, form: str) -> str:
    value = getattr(figures, name) if figures is not None else None
    return "-" if value is None else form.format(value * factor)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
