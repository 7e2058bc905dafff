"""Files that are written once for each choice of settings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from tests.engines import shipped

from palanca.api.files import Files
from palanca.model import Catalogue


def test_it_is_written_once_for_all_who_ask_at_once() -> None:
    """While one thread writes a file the others wait for it, and for no other file."""
    begun, go_on = Event(), Event()
    writers: list[str] = []

    def write(name: str, catalogue: Catalogue, interval: str) -> str:
        if name == "quick":
            return "quick"
        writers.append(interval)
        begun.set()
        assert go_on.wait(10)
        return "slow"

    files = Files(lambda: (shipped(), "30s"), write)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(files.packed, "slow")
        assert begun.wait(10)
        others = [threads.submit(files.packed, "slow") for _ in range(2)]
        assert b"quick" == files.packed("quick").body
        go_on.set()
        assert {b"slow"} == {asked.result(10).body for asked in (first, *others)}
    assert 1 == len(writers)


def test_another_choice_is_written_anew() -> None:
    """And the one before is forgotten."""
    chosen = ["a"]
    files = Files(lambda: (shipped(), chosen[0]), lambda name, _, option: name + option)
    assert b"xa" == files.packed("x").body
    chosen[0] = "b"
    assert b"xb" == files.packed("x").body
