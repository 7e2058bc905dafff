"""What was made a moment ago is given again."""

from __future__ import annotations

import asyncio

import pytest

from palanca.web.recent import Recent


def test_equal_questions_are_asked_once() -> None:
    """At the same time, and afterwards, as long as there is room."""
    asked: list[int] = []

    async def make(number: int) -> int:
        asked.append(number)
        await asyncio.sleep(0)
        return number

    async def all_of_it() -> None:
        recent: Recent[int] = Recent(2)
        assert [1, 1, 2] == await asyncio.gather(*(recent.get(one, lambda one=one: make(one)) for one in (1, 1, 2)))  # type: ignore[misc]
        assert 1 == await recent.get(1, lambda: make(1))
        assert [1, 2] == asked
        await recent.get(3, lambda: make(3))  # 2 was not asked for lately
        await recent.get(1, lambda: make(1))
        assert [1, 2, 3] == asked
        await recent.get(2, lambda: make(2))
        recent.forget(2)
        await recent.get(2, lambda: make(2))
        assert [1, 2, 3, 2, 2] == asked

    asyncio.run(all_of_it())


def test_failures_are_not_kept() -> None:
    """The next one asks again, and each who waits learns of it."""

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def succeed() -> int:
        return 5

    async def all_of_it() -> None:
        recent: Recent[int] = Recent(2)
        failed = await asyncio.gather(*(recent.get("a", fail) for _ in range(2)), return_exceptions=True)
        assert ["no", "no"] == [str(one) for one in failed]
        assert 5 == await recent.get("a", succeed)

    asyncio.run(all_of_it())


def test_who_hangs_up_takes_nothing_away() -> None:
    """What was begun for two goes on for one."""

    async def slow() -> int:
        await asyncio.sleep(0.01)
        return 7

    async def all_of_it() -> None:
        recent: Recent[int] = Recent(2)
        first, second = (asyncio.ensure_future(recent.get("a", slow)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert 7 == await second
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(all_of_it())
