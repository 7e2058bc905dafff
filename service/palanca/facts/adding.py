"""The facts of every target, and which of them wins."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from palanca.facts.completion import complete
from palanca.facts.inference import infer
from palanca.facts.told import Facts, defaults, given, reported
from palanca.model import Fact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from palanca.model import Catalogue, Readings, Target


def add_facts(
    readings: Readings,
    catalogue: Catalogue,
    *,
    flags: Mapping[str, str] | None = None,
    objectives: Mapping[str, float] | None = None,
    servers: Mapping[str, Mapping[str, Fact]] | None = None,
    settings: Callable[[Target], Mapping[str, Fact]] | None = None,
) -> Readings:
    """Return the readings with the facts of every target; what is given wins over what is reported or inferred.

    ``servers`` are facts that servers report outside of their metrics, by instance; ``settings`` gives those that the
    operator wrote down for a target.
    """
    made, asked = [], given(catalogue, flags or {})
    asked |= {name: Fact(value, "given", "--slo") for name, value in (objectives or {}).items()}
    labels = [spec.label for spec in catalogue.facts.values() if spec.label is not None]
    places = [_server(target) for target in readings.targets]
    engines = Counter(place for place, target in zip(places, readings.targets, strict=True) if target.get("engine"))
    plain = cache(partial(defaults, catalogue))
    known: dict[object, Facts] = {}
    for row, target in enumerate(readings.targets):
        version, info, count = readings.versions[row], readings.info[row], engines[places[row]]
        inferred = infer(readings, row, catalogue)
        told = (servers or {}).get(target.get("instance"), {})
        own = settings(target) if settings is not None else {}
        parts = [tuple(facts.items()) for facts in (inferred, told, own)]
        key = (version, count, *map(info.get, labels), *parts)
        if key not in known:  # many engines are alike
            reports = reported(catalogue, info, count)
            known[key] = complete(catalogue, {**plain(version), **inferred, **reports, **told, **own, **asked})
        made.append(known[key])
    return replace(readings, facts=tuple(made))


def _server(target: Target) -> tuple[tuple[str, str], ...]:
    """Labels that the engines of one server share: all but ``engine``."""
    return tuple((name, value) for name, value in target.labels if name != "engine")
