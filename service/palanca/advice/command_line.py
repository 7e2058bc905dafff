"""A command line as it was given, with one recommended change made in it."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from typing import TYPE_CHECKING

from palanca.errors import UsageError
from palanca.facts import flags_in, words_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from palanca.model import Catalogue

_REMOVE = "remove "
_PARTLY = "..."
"""Stands in an argument for what nobody knows."""
_SERVE = ("vllm", "serve")
_HIDDEN = "HIDDEN"
"""Stands in for what only its owner should see."""
_SECRET = re.compile(r"--(?:.*-)?(?:key|token|secret|password)")
_SHELL = re.compile(r"[$`|&;<>()#]|^\s*\w+=")
"""What a shell does more with than take words."""
_PYTHON = re.compile(r"(?:\S*/)?python[0-9.]*")
_PROGRAM = re.compile(r"(?:\S*/)?vllm")
_OTHERS = frozenset({"serve", "vllm", "sh", "bash", "docker", "podman", "env", "sudo", "nohup", "exec", "uv", "uvx"})
"""Programs that are no model."""


def switches(catalogue: Catalogue) -> frozenset[str]:
    """Flags that take no value, so that the word behind one is something else."""
    flags = (spec.flag for spec in catalogue.facts.values() if spec.type == "flag" and spec.equals is None)
    return frozenset(flag for flag in flags if flag is not None and not flag.startswith("--spec"))


def changed(line: str, argument: str, alone: Collection[str] = ()) -> str | None:
    """Return the line with ``argument`` in it, in place of what it says of the same flag; None where that cannot be.

    ``argument`` is as recommended: ``--max-num-seqs 96``, ``--no-enable-prefix-caching``, ``remove --swap-space``.
    ``alone`` are the flags that take no value. Secrets are hidden. Raises ``UsageError`` for a line that is more, or
    something else, than ``vllm serve`` with its arguments: what is copied must do what is said.
    """
    if _PARTLY in argument:
        return None
    removing = argument.startswith(_REMOVE)
    new = [] if removing else words_of(argument)
    about = set(argument.removeprefix(_REMOVE).split(" and ")) if removing else {one.name for one in flags_in(new)}
    words = _plain(line)
    if removing and not about & {flag.name for flag in flags_in(words)}:
        raise UsageError(f"{argument.removeprefix(_REMOVE)} is not among them")
    made: list[str] = []
    at = 0
    for flag in flags_in(words):
        if _SECRET.fullmatch(flag.name) and flag.end > flag.start:
            words[flag.start : flag.end] = _hidden(words[flag.start : flag.end])
        if flag.name not in about:
            continue
        behind = words[flag.start + 1 : flag.end] if flag.name in alone else []
        made += [*words[at : flag.start], *new, *behind]
        new, at = [], flag.end
    return shlex.join([*made, *words[at:], *new])


def _hidden(words: list[str]) -> list[str]:
    """A flag with its secret taken out: as many words as before."""
    name, equals, _ = words[0].partition("=")
    return [f"{name}={_HIDDEN}" if equals else name, *[_HIDDEN for _ in words[1:]]]


def _plain(line: str) -> list[str]:
    """Words of a line that is a plain command, or arguments of one. Raises ``UsageError``."""
    found = _SHELL.search(line)
    if found is not None:
        raise UsageError(f"{found[0].strip()!r} in it is for a shell; give the arguments of vllm serve alone")
    words = words_of(line)
    if "--" in words or not _is_vllms(words):
        raise UsageError("it is more than vllm serve and its arguments; give those alone")
    return words


def _is_vllms(words: list[str]) -> bool:
    """Whether the words are ``vllm serve``, its module, or arguments of it: at most a model before the first flag."""
    leading = list(takewhile(lambda word: not word.startswith("-"), words))
    match words:
        case [python, "-m", module, *_] if _PYTHON.fullmatch(python):
            return module.startswith("vllm.entrypoints.")
        case [program, "serve", *_] if _PROGRAM.fullmatch(program):
            return len(leading) <= len(_SERVE) + 1
        case _:
            return len(leading) <= 1 and not _OTHERS & set(leading)


def whole(line: str, model: str) -> tuple[str, bool]:
    """Begin a line with ``vllm serve`` and a model, where it lacks them; whether the model is the one given here."""
    words = words_of(line)
    if words[:1] and not words[0].startswith("-"):
        program = _PROGRAM.fullmatch(words[0]) or _PYTHON.fullmatch(words[0])
        return (line if program else shlex.join([*_SERVE, *words])), False
    if any(flag.name == "--model" for flag in flags_in(words)):
        return shlex.join([*_SERVE, *words]), False
    return shlex.join([*_SERVE, model or "MODEL", *words]), True
