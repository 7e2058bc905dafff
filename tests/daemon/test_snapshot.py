"""A diagnosis written once."""

from __future__ import annotations

import gzip
import json
from dataclasses import FrozenInstanceError, replace

import pytest
from tests.api.apps import fleet, odd, recorded

from palanca.daemon.snapshot import SMALLEST_PACKED, packed, taken
from palanca.model import Diagnosis
from palanca.render.document import document


@pytest.mark.parametrize("diagnosis", [recorded(), fleet(), odd(), replace(fleet(), targets=())])
def test_bytes(diagnosis: Diagnosis) -> None:
    """Compact JSON, the same packed, and both the same every time: replicas agree."""
    snapshot = taken(diagnosis, 7)
    assert (diagnosis, 7) == (snapshot.diagnosis, snapshot.number)
    assert document(diagnosis).model_dump(by_alias=True, mode="json") == json.loads(snapshot.json.body)
    assert b'": ' not in snapshot.json.body[:200]
    if snapshot.json.gzip is not None:
        assert snapshot.json.body == gzip.decompress(snapshot.json.gzip)
    assert snapshot.json == taken(diagnosis, 8).json


@pytest.mark.parametrize(("size", "zipped"), [(0, False), (SMALLEST_PACKED - 1, False), (SMALLEST_PACKED, True)])
def test_small_bodies_are_left_as_they_are(size: int, zipped: bool) -> None:
    """They would hardly shrink."""
    assert zipped == (packed(b" " * size).gzip is not None)


def test_tags() -> None:
    """Weak, as two forms share one; other bytes, other tag."""
    one, other = packed(b"a"), packed(b"b")
    assert one.etag.startswith('W/"')
    assert one.etag.endswith('"')
    assert one.etag != other.etag
    assert one == packed(b"a")


def test_frozen() -> None:
    """Many threads share one."""
    with pytest.raises(FrozenInstanceError):
        taken(fleet(), 0).number = 1  # type: ignore[misc]
