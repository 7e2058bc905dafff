"""What clients ask for: a schedule of requests that follows from a seed alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from random import Random

FIRST_WORD, WORDS = 4, 4092
"""Ids of the tokens that are words; those before are special."""
STAMP = 4
"""Tokens that stand for a timestamp."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Load:
    """Requests, either of so many ``clients`` who ask again when they are answered, or at a ``rate`` (Poisson).

    A prompt is a timestamp if there is one, what all prompts ``shared``, and what is its own (``prompt``), in tokens.
    ``stamp`` says where the timestamp stands. Every ``long``-th prompt has ``long_prompt`` tokens of its own instead:
    at chance they would bunch, and two stretches of one load would not compare. ``words`` is how many different tokens
    prompts and answers are made of.
    """

    prompt: Range
    answer: Range
    clients: int = 0
    rate: float = 0.0
    shared: int = 0
    stamp: str | None = None
    long: int = 0
    long_prompt: Range = (0, 0)
    words: int = WORDS

    def __post_init__(self) -> None:
        """Check what cannot be served."""
        if (self.clients > 0) == (self.rate > 0):
            raise ValueError("a load has either clients or a rate")
        if self.stamp not in {None, "first", "last"}:
            raise ValueError("a timestamp stands first or last")

    def said(self) -> str:
        """Describe it."""
        who = f"{self.clients} clients in a closed loop" if self.clients else f"{self.rate:g} requests/s (Poisson)"
        parts = [f"{_span(self.prompt)} tokens of its own"]
        if self.shared:
            parts.insert(0, f"{self.shared:,} shared tokens")
        if self.stamp is not None:
            parts.insert(0 if self.stamp == "first" else len(parts), "a timestamp")
        prompt = ", then ".join(parts)
        long = f"; of every {self.long}th {_span(self.long_prompt)}" if self.long else ""
        few = f", all out of {self.words} words" if self.words < WORDS else ""
        return f"{who}: a prompt is {prompt}{long}; answers of {_span(self.answer)} tokens{few}"


@dataclass(frozen=True)
class Request:
    """One request: when it is due after the begin (s; 0 in a closed loop), its tokens, and the length of the answer."""

    due: float
    prompt: tuple[int, ...]
    answer: int


def _span(span: Range) -> str:
    return f"{span[0]:,}-{span[1]:,}" if span[0] < span[1] else f"{span[0]:,}"


def requests(load: Load, seed: int, client: int = 0) -> Iterator[Request]:
    """Requests of one client, without an end: the same for the same seed, whatever the server does."""
    choice = Random(f"{seed}/{client}")  # noqa: S311  a load, not a secret
    common = Random(f"{seed}/shared")  # noqa: S311
    shared = _words(common, load.shared, load.words)
    due = 0.0
    for number in count():
        if load.rate:
            due += choice.expovariate(load.rate)
        own = _words(choice, choice.randint(*_own(load, number)), load.words)
        yield Request(due, _prompt(load, _stamp(client, number), shared, own), choice.randint(*load.answer))


def first(load: Load, seed: int, number: int, client: int = 0) -> list[Request]:
    """The first so many requests."""
    return list(islice(requests(load, seed, client), number))


def unique_last(load: Load) -> Load:
    """The same load with what is shared first, byte for byte; unchanged where it was so already."""
    return replace(load, stamp="last") if load.stamp == "first" and load.shared else load


def _own(load: Load, number: int) -> Range:
    return load.long_prompt if load.long and number % load.long == load.long - 1 else load.prompt


def _words(choice: Random, number: int, words: int) -> tuple[int, ...]:
    return tuple(choice.choices(range(FIRST_WORD, FIRST_WORD + words), k=number))


def _stamp(client: int, number: int) -> tuple[int, ...]:
    """No two requests have the same."""
    return (FIRST_WORD + client, *(FIRST_WORD + number // 10**place % 10 for place in reversed(range(STAMP - 1))))


def _prompt(load: Load, stamp: tuple[int, ...], shared: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    match load.stamp:
        case "first":
            return (*stamp, *shared, *own)
        case "last":
            return (*shared, *stamp, *own)
        case _:
            return (*shared, *own)
