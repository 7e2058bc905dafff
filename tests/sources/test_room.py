"""Room for answers, shared by those that are under way."""

from __future__ import annotations

from palanca.sources.room import Room


def test_parts_share_the_room() -> None:
    """What one has taken another lacks, until it is given back."""
    room = Room(100)
    with room.part() as one, room.part() as other:
        assert not one.full(60)
        assert not other.full(40)
        assert other.full(1)
    with room.part() as later:
        assert not later.full(100)
        assert later.full(1)
