"""Answers are kept until the next poll, within a limit."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from tests.api.apps import FakeBackend, fleet

from palanca.api.memory import OVERHEAD_BYTES, Made, Memory
from palanca.daemon.snapshot import Packed, taken
from palanca.model import Catalogue, Diagnosis


class Maker:
    """Counts what it makes; each body has ``size`` bytes."""

    def __init__(self, size: int = 10) -> None:
        self.made, self.size = 0, size
        self.failure: Exception | None = None
        self.wait: threading.Event | None = None

    def __call__(self, diagnosis: Diagnosis, _: Catalogue) -> tuple[Packed, dict[str, str]]:
        self.made += 1
        if self.wait is not None:
            self.wait.wait(10)
        if self.failure is not None:
            raise self.failure
        return Packed(b"x" * self.size, b"y" * self.size, str(diagnosis.time)), {"X-Total-Count": "3"}


def ask(memory: Memory, make: Maker, *keys: str) -> list[Made]:
    async def all_() -> list[Made]:
        return [await memory.answer((key,), make) for key in keys]

    return asyncio.run(all_())


def test_the_same_is_made_once() -> None:
    """Per key, until there is a new diagnosis or another catalogue."""
    backend, make = FakeBackend(fleet()), Maker()
    memory = Memory(backend)
    first, again, other, same = ask(memory, make, "a", "a", "b", "b")
    assert (first is again, other is same, 2) == (True, True, make.made)
    assert ({"X-Total-Count": "3"}, fleet().time) == (other.headers, first.time)
    assert first is memory.known(("a",))
    assert memory.known(("c",)) is None
    backend.snapshot = taken(replace(fleet(), time=fleet().time + 1), 2)
    (later,) = ask(memory, make, "a")
    assert (3, fleet().time + 1) == (make.made, later.time)
    whole = backend.catalogue
    backend.catalogue = Catalogue(whole.metrics, whole.signals, whole.facts, whole.levers, whole.rules)
    ask(memory, make, "a", "a")
    assert 4 == make.made


def test_no_more_is_kept_than_allowed() -> None:
    """Keys count too: a caller could ask for nothing in a thousand long ways."""
    backend, make = FakeBackend(fleet()), Maker(1000)
    memory = Memory(backend, most=4 * (2 * 1000 + OVERHEAD_BYTES))
    ask(memory, make, *map(str, range(100)))
    assert 3 <= memory.size / (2 * 1000 + OVERHEAD_BYTES) <= 4
    small, short = Memory(backend, most=100_000), Maker(0)
    ask(small, short, *(str(at) * 10_000 for at in range(30)))
    assert small.size <= 100_000
    ask(small, short, "0" * 10_000)
    assert 30 == short.made


def test_equal_questions_wait_for_one_answer() -> None:
    """And the first to ask may hang up."""
    backend, make = FakeBackend(fleet()), Maker()
    make.wait = threading.Event()
    memory = Memory(backend)

    async def scene() -> list[Made]:
        first = asyncio.ensure_future(memory.answer(("a",), make))
        others = [asyncio.ensure_future(memory.answer(("a",), make)) for _ in range(5)]
        await asyncio.sleep(0.05)
        first.cancel()
        await asyncio.sleep(0)
        assert make.wait is not None
        make.wait.set()
        return list(await asyncio.gather(*others))

    assert 1 == len({id(one) for one in asyncio.run(scene())})
    assert 1 == make.made


def test_a_failure_is_not_kept() -> None:
    """All who wait learn of it; the next question is a new try."""
    backend, make = FakeBackend(fleet()), Maker()
    make.failure = ValueError("no")
    memory = Memory(backend)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            ask(memory, make, "a")
    make.failure = None
    assert make.size == len(ask(memory, make, "a")[0].packed.body)
    ask(memory, make, "a")
    assert 3 == make.made


def test_what_is_made_of_an_old_diagnosis_is_not_kept() -> None:
    """A poll that ends meanwhile makes it old; who asked gets it all the same."""
    backend, make = FakeBackend(fleet()), Maker()
    make.wait = threading.Event()
    memory = Memory(backend)

    async def scene() -> tuple[Made, Made]:
        first = asyncio.ensure_future(memory.answer(("a",), make))
        await asyncio.sleep(0.02)
        backend.snapshot = taken(replace(fleet(), time=fleet().time + 30), 2)
        second = asyncio.ensure_future(memory.answer(("a",), make))
        await asyncio.sleep(0.02)
        assert make.wait is not None
        make.wait.set()
        return await first, await second

    old, new = asyncio.run(scene())
    assert 30 == new.time - old.time
    assert new is ask(memory, make, "a")[0]
    assert 2 == make.made
