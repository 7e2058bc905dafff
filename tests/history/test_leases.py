"""One of several replicas records; on PostgreSQL their clocks do not matter."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from tests.history.looks import START, Opener, at, engine, firing, look

from palanca.history.leases import Lease

A, B = Lease("recorder", "a", 60.0), Lease("recorder", "b", 60.0)


def test_one_at_a_time(address: str, opened: Opener) -> None:
    """Others get it when it is given back; its number grows with each new holder."""
    store = opened(address)
    assert store.holder("recorder", START) is None
    assert not store.renew(A, START)
    assert [True, True, False] == [store.acquire(one, START) for one in (A, A, B)]
    held = store.holder("recorder", START)
    assert held is not None
    assert ("a", 1) == (held.holder, held.token)
    assert pytest.approx(60.0, abs=5) == held.left_s
    assert [True, False] == [store.renew(one, START) for one in (A, B)]
    assert [False, True, False] == [store.release(one) for one in (B, A, A)]
    assert store.acquire(B, START)
    assert store.acquire(replace(A, name="another"), START)
    assert 1 == getattr(store.holder("recorder", START), "token", None)


def test_it_expires(address: str, opened: Opener) -> None:
    """The next holder has the next number, and the one before has lost it."""
    store = opened(address)
    short = replace(A, ttl_s=0.2)
    assert store.acquire(short, START)
    assert not store.acquire(B, START + 0.1)
    time.sleep(0.25)
    assert store.acquire(B, START + 0.25)
    assert not store.acquire(A, START + 0.3)
    assert 2 == getattr(store.holder("recorder", START + 0.3), "token", None)


def test_clocks_of_replicas_may_differ(server: object, opened: Opener) -> None:
    """On PostgreSQL its clock alone says what has expired: an hour ahead takes nothing away."""
    store = opened(server.database())  # type: ignore[attr-defined]
    assert store.acquire(A, START)
    assert not store.acquire(B, START + 3600)
    assert store.renew(A, START - 3600)


def test_only_the_holder_records(address: str, opened: Opener) -> None:
    """Recording takes and renews the lease; who does not get it changes nothing."""
    first, second = opened(address, A), opened(address, B)
    assert "recorded" == first.record(at(0), "main", look(0, engine(firing())), {}).outcome
    assert "not-holder" == second.record(at(1), "main", look(1, engine()), {}).outcome
    assert second.retire([], at(1)) is None
    assert ["firing"] == [one.state for one in second.episodes().items]
    assert first.release(A)
    assert "recorded" == second.record(at(2), "main", look(2, engine()), {}).outcome
    assert "not-holder" == first.record(at(3), "main", look(3, engine(firing())), {}).outcome


def test_many_want_it_at_once(address: str, opened: Opener) -> None:
    """Of eight threads with stores of their own, opened together on nothing, one gets it."""
    stores = [opened(address, Lease("recorder", str(index), 600.0), 60.0) for index in range(8)]
    outcomes: list[str] = []
    together = threading.Barrier(len(stores))

    def run(index: int) -> None:
        together.wait()
        looks = [look(step, engine(firing())) for step in range(5)]
        outcomes.extend(stores[index].record(one.time, "main", one, {}).outcome for one in looks)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {"recorded": 5, "not-holder": 35} == {one: outcomes.count(one) for one in set(outcomes)}
    assert 1 == len(stores[0].episodes().items)


def test_recorders_without_a_lease(address: str, opened: Opener) -> None:
    """Several that record the same moments: each moment once, whoever comes first."""
    stores = [opened(address) for _ in range(4)]
    stores[0].open()
    outcomes: list[str] = []

    def run(index: int) -> None:
        for step in range(10):
            looked = look(step, engine(*([firing()] if step % 2 else [])))
            outcomes.append(stores[index].record(at(step), "main", looked, {}).outcome)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 40 == len(outcomes)
    assert {"recorded", "late"} == set(outcomes)
    kinds = [event.kind for event in stores[0].events().items]
    assert kinds.count("began") == len(stores[0].episodes().items) <= 5
