"""Takes the first recommendation of a diagnosis, and makes just that change. Knows no fault."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lab.load import Load, unique_last
from palanca.advice.command_line import changed
from palanca.errors import UsageError

Document = Mapping[str, Any]
"""A part of the JSON of a diagnosis."""

ACTIONS: Mapping[str, Callable[[Load], Load]] = {"identical_prefix": unique_last}
"""Levers outside vLLM that clients hold. The others (replicas, another model) are not at hand here."""


@dataclass(frozen=True)
class Advice:
    """The first recommendation, and the finding that it stands in."""

    finding: Document
    recommendation: Document

    @property
    def said(self) -> str:
        """The change, verbatim."""
        one = self.recommendation
        return str(one["argument"] or f"{one['lever']} ({one['direction']})")


@dataclass(frozen=True)
class Treated:
    """Arguments of ``vllm serve`` and load after the change; where it cannot be made, ``why_not``."""

    arguments: tuple[str, ...]
    load: Load
    where: str = ""
    """``server`` or ``client``."""
    why_not: str = ""


def first_advice(diagnosis: Document) -> Advice | None:
    """The first recommendation of the first root finding that has one, as ``palanca`` itself prints it."""
    for target in diagnosis["targets"]:
        for finding in target["findings"]:
            if finding["role"] == "root" and finding["recommendations"]:
                return Advice(finding, finding["recommendations"][0])
    return None


def treat(arguments: tuple[str, ...], load: Load, advice: Advice | None) -> Treated:
    """Make the recommended change, and no other."""
    same = Treated(arguments, load)
    if advice is None:
        return replace(same, why_not="there is no recommendation")
    one = advice.recommendation
    if one["flag"] is None:
        return _by_clients(same, str(one["lever"]))
    if one["argument"] is None:
        return replace(same, why_not=f"{one['flag']} is named without an argument")
    try:
        line = changed(shlex.join(arguments), one["argument"])
    except UsageError as error:
        return replace(same, why_not=str(error))
    if line is None:
        return replace(same, why_not="the argument is given in part only")
    if tuple(shlex.split(line)) == arguments:
        return replace(same, why_not="it is set already")
    return replace(same, arguments=tuple(shlex.split(line)), where="server")


def _by_clients(same: Treated, lever: str) -> Treated:
    action = ACTIONS.get(lever)
    if action is None:
        return replace(same, why_not=f"{lever} is no flag, and nothing that these clients can do")
    load = action(same.load)
    if load == same.load:
        return replace(same, why_not=f"{lever} holds for this load already")
    return replace(same, load=load, where="client")
