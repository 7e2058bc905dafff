"""How a lever is spelled in the releases that a target can be running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.releases import Release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.model import Direction, Lever, LeverForm, VllmVersion


@dataclass(frozen=True)
class Spelling:
    """A lever in the words of a target's release; ``others`` are the forms of the rest of its release range."""

    flag: str | None
    argument: str | None
    others: tuple[str, ...] = ()


def spell(
    lever: Lever, version: VllmVersion | None, releases: Sequence[str], direction: Direction, value: str | None
) -> Spelling | None:
    """Return the flag and argument; None when some release that the target can be running lacks the lever.

    ``value`` is the proposed value as written on a command line, or None when none could be computed.
    """
    if lever.action is not None:
        return Spelling(None, None)
    forms = _forms(lever, version, releases)
    if forms is None:
        return None
    texts = [_argument(form, direction, value) for form in forms]
    return Spelling(forms[-1].flag, texts[-1], tuple(text for text in texts[:-1] if text))


def _forms(lever: Lever, version: VllmVersion | None, releases: Sequence[str]) -> list[LeverForm] | None:
    first, last = (
        (Release(version.first), Release(version.last)) if version else (Release(releases[0]), Release(releases[-1]))
    )
    span = [Release(release) for release in releases if first <= Release(release) <= last] or [last]
    used: list[LeverForm] = []
    for release in span:
        form = next((form for form in lever.forms if release in form.releases), None)
        if form is None:
            return None
        if form not in used:
            used.append(form)
    return used


def _argument(form: LeverForm, direction: Direction, value: str | None) -> str | None:
    if direction == "disable":
        return form.disable
    if "{value}" not in form.argument:
        return form.argument
    return None if value is None else form.argument.replace("{value}", value)
