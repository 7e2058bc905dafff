"""What the exported files cannot say, and why: nobody should have to find out by an alert that never comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palanca.alerting import objectives

if TYPE_CHECKING:
    from palanca.alerting.matrix import Matrix


@dataclass(frozen=True)
class Gap:
    """Things of one kind that are missing: a title for the header, a word for a message, and the reasons by name."""

    title: str
    word: str
    reasons: Mapping[str, str]


def gaps(matrix: Matrix) -> tuple[Gap, ...]:
    """All that is missing, without empty kinds."""
    every = (
        Gap("Rules that no expression over series can say; palanca itself judges them:", "left out", matrix.left_out),
        Gap("Rules that are judged in part:", "in part", matrix.partly),
        Gap("Objectives whose burn no bucket shows, wholly or in part:", "not judged", objectives.unjudged(matrix)),
    )
    return tuple(one for one in every if one.reasons)
