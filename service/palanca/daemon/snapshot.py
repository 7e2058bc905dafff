"""The last finished diagnosis as bytes: written once for each poll, sent as often as anybody asks."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from palanca.render.document import document

if TYPE_CHECKING:
    from palanca.model import Diagnosis

GZIP_LEVEL = 5
SMALLEST_PACKED = 1000
"""Bytes from which packing pays."""


@dataclass(frozen=True)
class Packed:
    """A body ready to be sent: as it is, packed by gzip (None where that does not pay), and its entity tag.

    The tag is weak, since both forms share it.
    """

    body: bytes
    gzip: bytes | None
    etag: str


def packed(body: bytes) -> Packed:
    """Make a body ready."""
    zipped = gzip.compress(body, GZIP_LEVEL, mtime=0) if len(body) >= SMALLEST_PACKED else None
    return Packed(body, zipped, f'W/"{sha256(body).hexdigest()[:20]}"')


@dataclass(frozen=True)
class Snapshot:
    """A diagnosis and its JSON. ``number`` counts the snapshots of this process."""

    diagnosis: Diagnosis
    json: Packed
    number: int


def taken(diagnosis: Diagnosis, number: int) -> Snapshot:
    """Write a diagnosis once, compact."""
    return Snapshot(diagnosis, packed(document(diagnosis).model_dump_json(by_alias=True).encode()), number)
