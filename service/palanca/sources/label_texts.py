"""Labels of series as the JSON text of an answer: of most series nobody looks at a single label.

A thousand engines are a hundred thousand series, whose labels differ in the number of the expression alone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from palanca.errors import SourceError
from palanca.signals.store import LabelSets, Tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palanca.signals.store import Labels

_DECODER = msgspec.json.Decoder(dict[str, str])
_NAME = b'{"__name__":"'
_LONGEST_SHOWN = 500


class LabelTexts(LabelSets):
    """``texts`` are JSON in UTF-8 from ``url``. Raises ``SourceError`` for one that is no object of texts."""

    def __init__(self, texts: Sequence[bytes], url: str) -> None:
        self._texts, self._url = texts, url
        self._plain = _all_plain(texts)
        if not self._plain:
            self._read  # noqa: B018  refuses

    def __len__(self) -> int:
        """Number of series."""
        return len(self._texts)

    @cached_property
    def labels(self) -> Sequence[dict[str, str]]:
        """Labels of each series, without its name."""
        return [labels for _, labels in self._read]

    @cached_property
    def names(self) -> Sequence[str]:
        """Name of each series; empty where it has none."""
        return [name for name, _ in self._read]

    @cached_property
    def _read(self) -> list[tuple[str, dict[str, str]]]:
        found = [self._labels_of(text) for text in self._texts]
        return [(labels.pop("__name__", ""), labels) for labels in found]

    def _labels_of(self, text: bytes) -> dict[str, str]:
        with suppress(msgspec.MsgspecError):
            return _DECODER.decode(text)
        labels = json.loads(text)  # takes half of a surrogate pair for a character
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            shown = text[:_LONGEST_SHOWN].decode(errors="replace")
            wrong = "a label that is no text" if shown.startswith("{") else "a result without labels"
            raise SourceError(f"{self._url}: {wrong}: {shown}")
        return labels

    def by(self, tag: str) -> Tagged:
        """Group by a label; only one text of each set of the others is read."""
        if not self._plain:
            return super().by(tag)
        mark = f'"{tag}":"'.encode()
        around = [text.partition(mark) for text in self._texts]
        tails = [rest.partition(b'"') for _, _, rest in around]
        rows: dict[bytes, list[int]] = defaultdict(list)
        for row, (value, _, _) in enumerate(tails):
            rows[value].append(row)
        others = [_unnamed(before) + after for (before, _, _), (_, _, after) in zip(around, tails, strict=True)]
        numbers: dict[bytes, int] = {}
        known: dict[tuple[str, ...], int] = {}
        labels: list[Labels] = []
        for other, row in dict(zip(others, range(len(others)), strict=True)).items():
            own = self._labels_of(self._texts[row])
            if own.pop(tag, "") != tails[row][0].decode():  # written otherwise: with spaces
                return super().by(tag)
            own.pop("__name__", None)
            numbers[other] = known.setdefault((*own, *own.values()), len(known))
            labels += [own] if len(known) > len(labels) else []
        found = {value.decode(): mine for value, mine in rows.items()}
        return Tagged(found, labels, [numbers[other] for other in others])


def _all_plain(texts: Sequence[bytes]) -> bool:
    """Whether each is ``{"label":"text","label":"text"}``, as far as quotes tell: two around each of both.

    What is no object of texts and looks like one all the same is refused when it is read.
    """
    text = b"\n".join([b"", *texts])
    objects = text.count(b"\n{") == len(texts)
    return objects and b"\\" not in text and text.count(b'"') == 4 * text.count(b'":"')


def _unnamed(text: bytes) -> bytes:
    """Leave out the name, which Prometheus writes first."""
    return text.split(b'"', 4)[-1] if text.startswith(_NAME) else text
