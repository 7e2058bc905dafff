"""The flags of a ``vllm serve`` command line."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ALIASES = {
    "--device-memory-utilization": "--gpu-memory-utilization",
    "--max-num-active-seqs": "--max-num-seqs",
    "--spec-tokens": "--num-speculative-tokens",
    "--speculative-config.num-speculative-tokens": "--num-speculative-tokens",
}
_SHORT = {
    "-tp": "--tensor-parallel-size",
    "-dp": "--data-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-sc": "--speculative-config",
}
NUMBER = re.compile(r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$", re.IGNORECASE)
"""What is a number on a command line."""
_CONTINUED = re.compile(r"\\\r?\n")


@dataclass(frozen=True)
class GivenFlag:
    """A flag in the words of a command line, ``words[start:end]``: its plain name and its value.

    A switch has the value ``"true"``, a negated one (``--no-enable-chunked-prefill``) ``"false"`` under its plain name.
    """

    start: int
    end: int
    name: str
    value: str


def words_of(text: str) -> list[str]:
    """Split a command line into words, as a shell does. Raises ``UsageError``."""
    try:
        return shlex.split(_CONTINUED.sub(" ", text))
    except ValueError as error:
        message = f"--serve-args cannot be read as a command line: {error}"
        raise UsageError(message) from None


def flags_in(words: Sequence[str]) -> Iterator[GivenFlag]:
    """Yield the flags among the words of a command line."""
    index = 0
    while index < len(words):
        start, word = index, words[index]
        index += 1
        if not word.startswith("-") or NUMBER.match(word):
            continue
        name, equals, value = word.partition("=")
        name = _SHORT.get(name, name).replace("_", "-")
        if not equals and index < len(words) and (not words[index].startswith("-") or NUMBER.match(words[index])):
            value, index = words[index], index + 1
        elif not equals:
            value = "true"
        if name.startswith("--no-"):
            name, value = "--" + name[5:], "false"
        yield GivenFlag(start, index, _ALIASES.get(name, name), value)


def parse_serve_args(text: str) -> dict[str, str]:
    """Read the flags of a ``vllm serve`` command line: ``{"--max-num-seqs": "64", "--enforce-eager": "true"}``.

    Raises ``UsageError``.
    """
    return {flag.name: flag.value for flag in flags_in(words_of(text))}
