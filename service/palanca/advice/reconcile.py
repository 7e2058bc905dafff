"""One command line, one set of flags: what the engines that share it must agree on.

Within a configuration scope (cluster, namespace, job, model_name) a lever has one direction and one value: those of
the finding that ranks first, with the safest value over the engines that ask for it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from palanca.model import scope_of
from palanca.quantities import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palanca.model import Finding, Recommendation, Target

Scope = tuple[str, ...]


def reconcile(
    targets: Sequence[Target],
    findings: Sequence[Sequence[Finding]],
    rank: Callable[[Finding], tuple[object, ...]],
) -> list[tuple[Finding, ...]]:
    """Return the findings of each target with recommendations that do not contradict each other in a scope."""
    members: dict[Scope, list[int]] = defaultdict(list)
    for index, target in enumerate(targets):
        members[scope_of(target)].append(index)
    made: list[tuple[Finding, ...]] = [tuple(one) for one in findings]
    for indexes in members.values():
        every = sorted((finding for index in indexes for finding in findings[index]), key=rank)
        directions: dict[str, str] = {}
        for finding in every:
            for one in finding.recommendations:
                directions.setdefault(one.lever, one.direction)
        for index in indexes:
            made[index] = tuple(
                replace(finding, recommendations=_agreed(finding, directions, [findings[i] for i in indexes]))
                for finding in findings[index]
            )
    return made


def _agreed(
    finding: Finding, directions: dict[str, str], scope: Sequence[Sequence[Finding]]
) -> tuple[Recommendation, ...]:
    kept = []
    for one in finding.recommendations:
        if directions[one.lever] != one.direction:
            continue
        asking = [
            [other for found in engine for other in found.recommendations if _same(one, other)] for engine in scope
        ]
        engines = [others for others in asking if others]
        proposed = _safest(one, [other for others in engines for other in others])
        argument, computed_from = one.argument, one.computed_from
        if proposed != one.proposed and argument is not None:
            from palanca.advice.recommend import word  # noqa: PLC0415

            argument = argument.replace(word(one.proposed or 0), word(proposed or 0))
            computed_from = f"the safest of the values of {len(engines)} engines; of this one: {computed_from}"
        applies_to = (
            one.applies_to if len(scope) == 1 else f"{len(engines)} of {len(scope)} engines of this command line"
        )
        kept.append(
            replace(one, proposed=proposed, argument=argument, computed_from=computed_from, applies_to=applies_to)
        )
    return tuple(kept)


def _safest(one: Recommendation, asking: Sequence[Recommendation]) -> float | bool | str | None:
    """Return the smallest number that is no step back for any engine that asks; inferred current values may differ."""
    if not is_number(one.proposed):
        return one.proposed
    numbers = [float(other.proposed) for other in asking if is_number(other.proposed)]
    currents = [float(other.current) for other in asking if is_number(other.current)]
    least = max(currents, default=float("-inf")) if one.direction == "raise" else float("-inf")
    return min((number for number in numbers if number > least), default=max(numbers))


def _same(one: Recommendation, other: Recommendation) -> bool:
    return one.lever == other.lever and one.direction == other.direction
