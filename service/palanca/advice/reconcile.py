"""One command line, one set of flags: what the engines that share it must agree on.

Within a configuration scope (cluster, namespace, job, model_name) a lever has one direction and one value: those of
the finding that ranks first, with the safest value over the engines that ask for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from palanca.model import scope_of
from palanca.quantities import is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
        scope = [findings[index] for index in indexes]
        wishes = _wishes(scope, rank)
        for index in indexes:
            made[index] = tuple(
                replace(finding, recommendations=_agreed(finding, wishes, len(scope))) for finding in findings[index]
            )
    return made


@dataclass(frozen=True)
class _Wish:
    """What a scope agrees on for one lever: ``engines`` ask for it, ``safest`` is its number; None without one."""

    direction: str
    engines: int
    safest: float | None


def _wishes(scope: Sequence[Sequence[Finding]], rank: Callable[[Finding], tuple[object, ...]]) -> dict[str, _Wish]:
    """By lever."""
    directions: dict[str, str] = {}
    for finding in sorted((finding for engine in scope for finding in engine), key=rank):
        for one in finding.recommendations:
            directions.setdefault(one.lever, one.direction)
    asking: dict[str, dict[int, list[Recommendation]]] = defaultdict(lambda: defaultdict(list))
    for engine, found in enumerate(scope):
        for one in (one for finding in found for one in finding.recommendations):
            if one.direction == directions[one.lever]:
                asking[one.lever][engine].append(one)
    return {
        lever: _Wish(directions[lever], len(engines), _safest([one for few in engines.values() for one in few]))
        for lever, engines in asking.items()
    }


def _agreed(finding: Finding, wishes: Mapping[str, _Wish], engines: int) -> tuple[Recommendation, ...]:
    kept = []
    for one in finding.recommendations:
        wish = wishes[one.lever]
        if wish.direction != one.direction:
            continue
        proposed = wish.safest if is_number(one.proposed) else one.proposed
        argument, computed_from = one.argument, one.computed_from
        if proposed != one.proposed and argument is not None:
            from palanca.advice.recommend import word  # noqa: PLC0415

            argument = argument.replace(word(one.proposed or 0), word(proposed or 0))
            computed_from = f"the safest of the values of {wish.engines} engines; of this one: {computed_from}"
        applies_to = one.applies_to if engines == 1 else f"{wish.engines} of {engines} engines of this command line"
        kept.append(
            replace(one, proposed=proposed, argument=argument, computed_from=computed_from, applies_to=applies_to)
        )
    return tuple(kept)


def _safest(asking: Sequence[Recommendation]) -> float | None:
    """Return the smallest number that is no step back for any engine that asks; inferred current values may differ."""
    numbers = [float(one.proposed) for one in asking if is_number(one.proposed)]
    currents = [float(one.current) for one in asking if is_number(one.current)]
    least = max(currents, default=-math.inf) if asking[0].direction == "raise" else -math.inf
    return min((number for number in numbers if number > least), default=max(numbers, default=None))
