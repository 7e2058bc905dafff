"""A command line as it was given, with one recommended change made in it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from palanca.facts import flags_in, words_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from palanca.model import Catalogue

_REMOVE = "remove "
_PARTLY = "..."
"""Stands in an argument for what nobody knows."""
_SERVE = ("vllm", "serve")


def switches(catalogue: Catalogue) -> frozenset[str]:
    """Flags that take no value, so that the word behind one is something else."""
    flags = (spec.flag for spec in catalogue.facts.values() if spec.type == "flag" and spec.equals is None)
    return frozenset(flag for flag in flags if flag is not None and not flag.startswith("--spec"))


def changed(line: str, argument: str, alone: Collection[str] = ()) -> str | None:
    """Return the line with ``argument`` in it, in place of what it says of the same flag; None where that cannot be.

    ``argument`` is as recommended: ``--max-num-seqs 96``, ``--no-enable-prefix-caching``, ``remove --swap-space``.
    ``alone`` are the flags that take no value. Raises ``UsageError`` for a line that no shell can read.
    """
    if _PARTLY in argument:
        return None
    removing = argument.startswith(_REMOVE)
    new = [] if removing else words_of(argument)
    about = set(argument.removeprefix(_REMOVE).split(" and ")) if removing else {one.name for one in flags_in(new)}
    words = words_of(line)
    made: list[str] = []
    at = 0
    for flag in flags_in(words):
        if flag.name not in about:
            continue
        behind = words[flag.start + 1 : flag.end] if flag.name in alone else []
        made += [*words[at : flag.start], *new, *behind]
        new, at = [], flag.end
    return shlex.join([*made, *words[at:], *new])


def whole(line: str, model: str) -> tuple[str, bool]:
    """Begin a line with ``vllm serve`` and a model, where it lacks them; whether the model is the one given here."""
    words = words_of(line)
    if words[:1] and not words[0].startswith("-"):
        served = [word for word in words if "vllm" in word]
        return (line, False) if served else (shlex.join([*_SERVE, *words]), False)
    if any(flag.name == "--model" for flag in flags_in(words)):
        return shlex.join([*_SERVE, *words]), False
    return shlex.join([*_SERVE, model or "MODEL", *words]), True
